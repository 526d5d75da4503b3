// Package memstore keeps records in the memory of one process. What the process forgets is forgotten: it is for tests, for
// demos, and for services that run as one process and can live with every key being new after a restart.
//
// It is bounded: with [Config.MaxKeys] records it first lets go of those whose retention is over, and then refuses new keys
// with [stet.ErrFull]. It never lets go of a record that is running, unknown, or still replayed.
//
// Its history is bounded, too: beyond [Config.MaxHistory] each change with a note takes the place of the oldest. That is the
// one exception from the law that entries of a history stay; where they are evidence, keep records in a store that is durable.
package memstore
