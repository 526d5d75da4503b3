// Package filestore keeps each record in a JSON file of its own, readable with cat. It is for one
// host: any number of processes may open the same directory, on a local file system with hard links
// and flock(2).
//
// # What it promises
//
// When a verb returns, its effect is on the disk: file and directories are synced (fsync). A
// process that is killed loses nothing that it acknowledged, and leaves no incomplete record,
// because a file gets its name only when it is complete. A file that cannot be read, was changed by
// hand, or has a later version is [stet.ErrCorrupt] for its key alone.
//
// A full disk refuses writes ([stet.ErrFull] for new keys) and changes no record; when there is
// room again, writes succeed. If a directory cannot be synced, what is on the disk is uncertain,
// and the store refuses every call until it is opened again.
//
// # Layout
//
//	records/4f/4f0c….json   a record; its name is the SHA-256 of scope and key, each after its
//	                        length
//	records/store/id        whose records these are: what store.json says as well
//	due/20261121T0510Z/…    the same file once more, named by the instant it falls due, its state,
//	                        scope, version and id
//	audit.jsonl             the history: a line for each change that had a note; no line is ever
//	                        changed or removed
//	pending/4f0c….json      such a line, while its change is being made
//	store.json              which store this is; its mark rises while the store is written to
//	clock                   empty: its time is the horizon behind which the store's does not go
//	tmp/…                   what is being written; other processes remove what a dead one left
//
// Beside the directory DIR there is the file DIR.seen, which remembers the identity and the mark:
// who moves the directory, and puts another in its place, does not take it along. The store touches
// nothing else outside the directory, does not follow symbolic links, and lets only
// the owner read. Keys and bodies are stored in plain text: wrap the store to encrypt bodies. The
// contents of due are made from the records: if no process is running, the directory may be
// removed, and the next Open makes it again.
//
// # Locks
//
// A lock never outlives its owner. Each record's own file is locked (flock), and the kernel
// releases the lock of a process that dies at once. With a lock file that expires, a process would
// have to guess from a clock that the owner is dead; an owner that was only stopped would then
// overwrite what its successor wrote. How long a holder may execute is another matter, and is part
// of the record: its owner, and the end of its lease.
package filestore
