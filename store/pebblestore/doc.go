// Package pebblestore keeps records in a directory of one process, in an LSM tree
// (github.com/cockroachdb/pebble). It is for a single process that has to store many keys a second
// on a local disk: writes of many callers share one sync of the write-ahead log.
//
// # What it promises
//
// When a verb returns, its effect is on the disk (fsync). A process that is killed loses nothing
// that it acknowledged. What is read is on the disk, too: a write that is not yet synced is seen by
// no other caller. A record that cannot be read, or has a later version of this package's format,
// is [stet.ErrCorrupt] for its key alone.
//
// One process has the directory open at a time; a second one gets an error from [Open].
//
// # Damaged files
//
// The tree has checksums over blocks of some kilobytes. A record in a damaged block is
// [stet.ErrCorrupt]; others can be read and written by their keys. But a list, a count or a sweep
// cannot pass such a block, and returns [stet.ErrCorrupt] where it meets it: what falls due is not
// found any more, and the tree cannot tidy up there, so that in the end writes wait for ever.
// [Config.Logger] is told. The directory should be replaced by a copy soon.
//
// # A full disk
//
// When less than [Config.Reserve] is free, new keys are refused with [stet.ErrFull], while records
// that exist can still be changed: what runs can be completed. A ballast file takes part of the
// disk; it is removed when the disk is full all the same, so that such writes have room, and made
// again when there is space. New keys are accepted again when one and a half times the reserve is
// free.
//
// # Errors of the disk
//
// An error that leaves open what is on the disk stops the store, or ends the process: the tree may
// panic in a goroutine of its own. Every call of a stopped store fails, and it keeps the lock of
// its directory: the process has to be started again. A call whose context ends while the disk is
// busy returns the context's error; its work goes on, and may still be done.
//
// # Layout
//
//	r scope key           a head: its instants and numbers, then the rest as internal/codec
//	                      writes it, then a checksum that covers the key, too
//	b scope key           its body, likewise
//	d class due scope key found when it falls due; its value is the number in l
//	l class number        the record with this number, in the order of creation
//	t tag scope key       found by its tag
//	n name scope key      found by a downstream name
//	h number              a change with a note
//	i scope key number    the changes of one record
//
// The class is the record's state, and whether it may be removed when it is due. All keys of a
// record change in one atomic batch. An entry of an index counts only if it fits the record that it
// names.
package pebblestore
