// Package localdisk tells whether a file lies on a disk of this machine. Locks of its kernel are
// then known to every process that has the file open. On a file system of a network or of a host of
// this machine, others may have it open whose locks are not seen here.
package localdisk
