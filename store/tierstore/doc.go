// Package tierstore puts a fast front before a durable back: replays of completed results are answered by the front, and
// the back alone judges whether something may run.
//
// The front is a [Cache] in the process, or any store that several processes can reach, see [Shared]. It holds copies of completed
// records, and nobody relies on it: a front that is down, slow, empty or wrong about time changes no verdict from "do not run" to
// "run". What it answers is at most "this is done, and here is the result", and the retention of that result is not over. A call
// spends at most [Config].Timeout on the front, and a front that failed is left alone for [FrontPause].
//
// # How old an answer may be
//
// Within its retention a completed record changes only by what people do. Such a change removes the copy from the front it is
// made through. Copies elsewhere (the caches of other processes, or a shared front that could not be reached just then, or one
// that a slow reader filled a moment later) go on being replayed until they are [Config].TTL old, counted from when they were
// read from the back. So for at most TTL after
//
//   - a purge: retries still get the purged result in place of running again, and the key used with another request is still
//     a mismatch, also where somebody has run the key anew meanwhile and has another result;
//   - an extension: nothing is seen of it, the copy ends when its retention was to end, and the back is asked then.
//
// In neither case does anything run that should not. Whoever cannot have this sets a shorter TTL, or has no front.
//
// # Time
//
// All instants in a record are the back's. A copy remembers how much of its retention was left, and ages by the clock of
// the front (or, in a [Cache], of the process), counted from before the back was asked, with the time that writing the copy
// may have taken on top: a copy never believes itself younger than it is. Only a clock of a shared front that is set back while
// it runs could make it so, and then by no more than TTL.
//
// # What goes past the front
//
// Running, retryable, unknown and expired records are never answered from the front, but for those that run, with
// [Config].InFlight. Lists, counts, waits, history and transactions are the back's; with InFlight the front is told not to show a
// run that a transaction has written to, from then until the next thing it is told. The order of wrappers is
// seal(tier(front, breaker(back))): the front is given what the back is given, sealed.
package tierstore
