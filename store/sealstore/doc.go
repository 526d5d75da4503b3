// Package sealstore wraps a store and encrypts what it holds: what requests and responses carry is
// sealed with AES-256-GCM and random nonces (NIST SP 800-38D), after compression with zstd where
// that helps.
//
// # What is sealed, and what is not
//
// Sealed: response headers, trailers and bodies; the kept request; the progress of flows; Meta; and
// the Evidence of notes, also in the history. With [Keys].Names, scope and key are hidden as well:
// the store knows them only by keyed hashes.
//
// Plain, because stores compare versions and operators search: state, times, status, sizes,
// attempt, recovery point, cause, holder, route, method, path, trace id, downstream names, and who
// changed a record and why. If paths contain personal data, so does the store. The fingerprint is a
// plain SHA-256: an attacker who can guess a complete request can tell that it was made. Messages
// of package outbox do not pass through the store, and are not sealed.
//
// Each body is bound to the scope, key and fingerprint of its record and to the version of the
// format. A body that was altered or moved to another record is refused with [stet.ErrCorrupt], for
// that key only. There is no further protection against an attacker who can write to the table:
// that attacker can delete records, change plain columns, and restore an older body of the same key
// and request. A write that keeps the body must therefore keep the fingerprint, too. An engine does
// so: a new fingerprint starts a new life of the record, without the old body.
//
// # Keys
//
// Each sealed value names its key. The primary key seals, and all keys open. To rotate, add a key,
// make it primary, and remove the old key when everything that it sealed has expired, that is,
// after the longest retention. If several processes share a store, all of them must have the new
// key before the first one makes it primary. [Store.SetKeys] exchanges keys without a restart.
//
// One key may seal at most 2³² values, because random nonces could collide beyond that. A gateway
// that stores 1,000 results per second must rotate within three weeks, and with [Keys].Names within
// ten days.
//
// A value that was sealed with a removed key is [stet.ErrCorrupt] for its record only, and the
// error names the key. Removing a key therefore destroys what it sealed.
//
// Records that are not sealed are refused; otherwise, an attacker who can write to the table could
// bypass the seal. While a store is being migrated, [Config].AcceptPlain accepts them. New writes
// are sealed in any case.
//
// # Names
//
// The key that hashes names never changes: with another one, used keys would not be found, and
// their requests would run again. Names are hashed from the first record on, or never;
// [Check] detects a store that was filled differently. Scopes are hashed by themselves,
// so that queries by scope work. A key is hashed with its scope, so that the same key in two scopes
// has two hashes.
//
// Lists return the true names, which each record carries sealed. A head that cannot be opened is
// listed under its stored names, with its stored Meta: it is visible and can be reaped, but it
// cannot be overwritten.
//
// # Compression
//
// The size of a compressed secret depends on what is compressed together with it. An attacker who
// can choose part of a response many times, and can see the size of the stored record, may learn
// other parts of that response, as with the CRIME attack. If that is a risk, turn compression off
// by a negative [Config].CompressOver.
package sealstore
