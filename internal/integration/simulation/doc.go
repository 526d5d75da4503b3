// Package simulation checks an engine, its background loops and a store against what they promise,
// over random histories. A history that breaks a promise shrinks to the shortest one that does.
//
// A history is a list of actions, one after the other: clients ask, handlers send effects to a
// provider and settle, messages are lost or late, processes are cut off or crash, the store's clock
// jumps, hours go by, background loops and operators do their work. The provider ignores keys, so
// each request that reaches it has its effect. The promises are stated in terms of the provider's
// ledger, of the answers that clients got, and of the records before and after every single write.
// They do not use the rules of the engine, which is what they test.
package simulation
