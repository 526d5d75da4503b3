// Package breakerstore wraps a store in a circuit breaker, so that calls of a failing store fail
// immediately.
//
// While the store answers, the breaker is closed and calls go through. When most calls fail, the
// breaker opens: for [Config].Pause, every call returns [ErrOpen], and nothing is sent. Then the
// breaker is half-open and lets single calls through as probes. A probe that is answered closes the
// breaker; one that fails opens it again.
//
// An engine treats [ErrOpen] like any other failure of the store: it refuses the request. With a
// breaker, it does so without waiting for a timeout, and a server that is starting up again is not
// flooded with calls.
//
// # What counts as a failure
//
// A call counts as a failure only if its error says something about the store. These do not count:
//
//   - answers: [stet.ErrExists], [stet.ErrStale], [stet.ErrNotFound], [stet.ErrFull],
//     [stet.ErrUnconfirmed] and [stet.ErrCorrupt];
//   - a call whose caller gave up;
//   - a deadline that left the store less than [Config].Patience.
//
// Only the five verbs of [stet.Store] are counted. Abilities, such as lists and waits, are refused
// unless the breaker is closed, but are not counted: they may take long in a healthy store. Calls
// in a transaction of the caller (see [stet.Binder]) bypass the breaker.
//
// The order of wrappers is seal(tier(cache, breaker(origin))).
package breakerstore
