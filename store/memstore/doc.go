// Package memstore keeps records in the memory of one process. It is for tests, for demos, and for
// services that run as one process and can accept that every key is new after a restart.
//
// A store is bounded. When it has [Config.MaxKeys] records, it removes those whose retention is
// over; if there are none, it refuses new keys with [stet.ErrFull]. It never removes a record that
// is running, unknown, or still replayed.
//
// The history is bounded, too: beyond [Config.MaxHistory] entries, each new entry takes the place
// of the oldest. This is the one exception from the law that entries of a history stay. If they
// have to serve as evidence, use a durable store.
package memstore
