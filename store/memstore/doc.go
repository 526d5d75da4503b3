// Package memstore keeps records in the memory of one process. What the process forgets is forgotten: it is for tests, for
// demos, and for services that run as one process and can live with every key being new after a restart.
//
// It is bounded: with [Config.MaxKeys] records it first lets go of those whose retention is over, and then refuses new keys
// with [stet.ErrFull]. It never lets go of a record that is running, unknown, or still replayed.
package memstore
