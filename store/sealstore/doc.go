// Package sealstore wraps a store so that what it holds cannot be read without a key: AES-256-GCM with random nonces (NIST SP
// 800-38D) over what requests and responses carried, zstd before that where it pays.
//
// # What is sealed, and what is not
//
// Sealed: response headers, trailers and bodies; the kept request; the progress of flows; Meta; the Evidence of notes, also in
// the history. With [Keys].Names also the scope and key: the store then knows them by keyed hashes only.
//
// Plain, because stores judge versions and operators search: state, times, status, sizes, attempt, recovery point, cause,
// holder, route, method, path, trace id, downstream names, and who changed a record and why. Whoever puts customers' names
// into paths has them there. The fingerprint is a plain SHA-256: who can guess a whole request can tell that it was made.
// Messages of package outbox do not come through the store, and are not sealed.
//
// Each body is bound to its record's scope, key and fingerprint and to the format's version: moved to another record or
// altered, it is refused with [stet.ErrCorrupt], for that key alone. That is all the protection against people who can write to
// the table: they can still delete records, change plain columns, and put back an older body of the same key and request.
// What keeps a body must keep the fingerprint; an engine does (a new fingerprint is a new life, without the old body).
//
// # Keys
//
// Each seal names its key. The primary key seals, all keys open: to rotate, add a key, make it primary, and drop the old
// one when what it sealed is gone (the longest retention later). Processes that share a store all have to have the key before
// one of them makes it primary. A key seals 2³² values at most, by the birthday bound of random nonces; a gateway that stores
// 1,000 results per second rotates within three weeks, with [Keys].Names within ten days. What was sealed with a key that is not
// there any more is [stet.ErrCorrupt] for its record alone, and the error says which key it was. To drop a key is to
// shred what it sealed. [Store.SetKeys] does so without a restart.
//
// Records that are not sealed are refused, or else whoever can write to the table could do without the seal.
// [Config].AcceptPlain accepts them, for as long as a store is being migrated; what is written is sealed.
//
// # Names
//
// The key behind hashed names never changes: another one would not find the keys that were used, and run them again.
// Names are hashed from the first record on, or never; [Store.CheckSealed] finds a store that was filled by other rules. What
// a query selects by scope is found, because scopes are hashed by themselves; the same key in two scopes has two hashes.
// Lists return the true names, which records carry sealed. A head that cannot be opened is listed under the names that are
// stored, with its Meta as it is: it can be seen, it can be reaped, and it cannot be written over.
//
// # Compression
//
// The length of a compressed secret depends on what is compressed with it. Who chooses part of a response again and again, and
// sees how large its record becomes, may learn other parts of that response, as with CRIME. It takes the table in both hands;
// where that is a worry, a negative [Config].CompressOver compresses nothing.
package sealstore
