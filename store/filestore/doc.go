// Package filestore keeps each record in a JSON file of its own, readable with cat. It is for one host: any number of
// processes may open the same directory, on a local file system with hard links and flock(2).
//
// # What it promises
//
// When a verb returns, its effect is on the disk: file and directories are synced (fsync). A process that is killed loses
// nothing it acknowledged, and leaves no half-written record: a file gets its name only when it is whole. A file that cannot
// be read, was changed by hand, or is of a later version is [stet.ErrCorrupt] for its key alone. A full disk refuses writes
// ([stet.ErrFull] for new keys), changes no record, and heals by itself when there is room. Once a directory cannot be
// synced, what is on the disk is uncertain: the store then refuses everything until it is opened again.
//
// # Layout
//
//	records/4f/4f0c….json   a record; the name is the SHA-256 of scope and key, each with its length before it
//	due/20261121T0510Z/…    the same file once more, named by the instant it falls due, its state, scope, version and id
//	audit.jsonl             the history: a line for each change that had a note, never changed, never removed
//	pending/4f0c….json      such a line, while its change is being made
//	tmp/…                   what is being written; what a dead process left there is swept by others
//
// Nothing outside the directory is touched, symbolic links are not followed, and only the owner may read. Keys and bodies
// are in the files in plain: wrap the store to encrypt bodies. What is under due is made from the records: with no process
// running it may be removed, and the next Open makes it again.
//
// # Locks
//
// Nobody owns a lock longer than it lives. Each record's file is itself what is locked (flock), so that the kernel ends the
// lock of a process that dies, at once. A lock file with an expiry would instead have to guess from a clock that its owner is
// dead; a stopped process that wakes up after such a guess writes over what its successor wrote. How long somebody may
// execute is another matter, and is in the record: its owner, and the end of its lease.
package filestore
