// Package lives holds an engine, its keepers and a store against what they promise, over histories that are drawn at random and
// shrink to the shortest that breaks a promise.
//
// A history is a list of actions, one after the other: clients ask, handlers send effects to a provider and settle, messages are
// lost or late, processes are cut off or crash, the store's clock jumps, hours go by, keepers and people do their work. The
// provider ignores keys, so that whatever reaches it happens. What is promised is said in terms of its ledger, of the answers
// that clients got, and of the records as every single write finds and leaves them; no rule of the engine's is asked what another
// should have done.
package simulation
