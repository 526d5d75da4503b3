// Package breakerstore wraps a store so that a sick one is refused fast. While the store answers, calls go through. When
// most of them fail, the breaker opens: for a while every call fails at once with [ErrOpen], and nothing is sent. Then single
// calls are let through as probes; one that is answered closes the breaker.
//
// Nothing is decided here: [ErrOpen] is infrastructure like any other failure, so that an engine fails closed, only without making
// every request wait for a timeout, and without pressing a server that is trying to come back.
//
// A failure is what says something about the store. These do not: answers such as [stet.ErrExists], [stet.ErrStale],
// [stet.ErrNotFound], [stet.ErrFull], [stet.ErrUnconfirmed] and [stet.ErrCorrupt]; a call that its caller gave up; a deadline that left the store less
// than [Config].Patience. The five verbs are counted. Abilities are refused while the breaker is not closed, and are not counted:
// a wait lasts as long as it lasts, and a list of a million records may well be slow in a store that is in good health. What
// happens in a caller's transaction (see [stet.Binder]) is between the caller and the database, and passes.
//
// The order of wrappers is seal(tier(cache, breaker(origin))).
package breakerstore
