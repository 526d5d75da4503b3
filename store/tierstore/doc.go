// Package tierstore puts a cache before a durable store, the origin. The cache answers replays of
// completed results; the origin alone decides whether something may run.
//
// The cache is a [Memory] in the process, or any store that several processes can reach, see
// [Shared]. It holds copies of completed records, and correctness never depends on it: a cache that
// is down, slow, empty or wrong about the time turns no "do not run" into a "run". The most it
// answers is "this is done, here is the result", and only until the retention of that result is
// over. A call spends at most [Config].Timeout on the cache. After a failure, the cache is not
// asked for a second.
//
// # How old an answer may be
//
// Within its retention, only operators change a completed record. Such a change removes the copy
// from the cache of the store that makes it. Other copies are replayed until they are [Config].TTL
// old, counted from when the origin was asked: those in the caches of other processes, in a shared
// cache that could not be reached just then, and those that a slow reader stored there a moment
// later. So for at most TTL
//
//   - after a purge, a retry still gets the purged result instead of running again, and another
//     request with the same key is still a mismatch, even if the key has run again elsewhere and
//     has another result;
//   - after an extension, a copy still ends when the retention was to end before. The origin is
//     asked then.
//
// In neither case does anything run that should not. If that is too long, set a shorter TTL, or use
// no cache.
//
// # Time
//
// All instants in a record are the origin's. A copy remembers how much of its retention was left,
// and ages by the clock of the cache (for a [Memory], of the process). Its age counts from before
// the origin was asked, and includes the time that writing the copy may have taken, so that a copy
// never believes itself younger than it is. The one exception is a shared cache whose clock is set
// back while it runs, and then the error is at most TTL.
//
// # What bypasses the cache
//
// The cache never answers for retryable, unknown and expired records, and for running ones only
// with [Config].InFlight. Lists, counts, waits, history and transactions go to the origin. With
// InFlight, a write in a transaction hides the note of that run until the next write.
//
// The order of wrappers is seal(tier(cache, breaker(origin))): the cache gets what the origin gets,
// sealed.
package tierstore
