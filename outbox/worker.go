package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/store/sqlstore"
)

// Worker delivers messages. Any number of workers, on any number of hosts, may work on one outbox.
// Fields are set before Run and not changed after it; a zero field means the default.
type Worker struct {
	DB      *sql.DB          // holds the table stet_outbox; required
	Dialect sqlstore.Dialect // of DB; required
	Handler Handler          // delivers one message; required

	Concurrency int // deliveries at a time; default 16
	// Lease is how long a message stays with a worker that has died; default 30 s, at least 100 ms.
	// It is extended while a handler runs.
	Lease time.Duration
	// Timeout is how long a handler may take; default 1 min. Then its context ends, and a second
	// later it is left alone: its outcome is unknown, as after [Maybe]. A handler that does not
	// heed its context may still run during the next attempt of another process, which is made only
	// if the message's key is honoured. This process makes none about the same message before the
	// handler returns, and no other at all while 100 handlers hang.
	Timeout     time.Duration
	MaxAttempts int           // attempts after which a message is dead; default 12
	Backoff     time.Duration // the pause after the n-th attempt is random, at most Backoff<<(n-1); default 1 s
	MaxBackoff  time.Duration // the longest such pause; default 1 h
	Poll        time.Duration // the longest pause while there is nothing to do; default 1 s
	Drain       time.Duration // how long Run waits for running handlers after its context has ended; default 20 s
	Retention   time.Duration // how long done and discarded messages are kept; default 7 days, [stet.Never] keeps them; see [Box.Reap]

	// Listen reports messages as soon as they are committed, so that they do not wait for the next
	// poll; optional. It calls wake when it begins to listen and for each message, and returns when
	// ctx ends or when it cannot listen any more. Then Run polls, and calls it again after a
	// second. pgxstore.OutboxListener returns such a function for Postgres.
	Listen func(ctx context.Context, wake func()) error
	// Wake ends a pause early whenever a value comes; optional. A program that adds messages in the
	// worker's process sends to it, without blocking, after each commit.
	Wake <-chan struct{}

	// Observe is called with every attempt and every failure of the database; optional. It is
	// called from several goroutines and must not block.
	Observe func(Event)
}

var workerBounds = bounds.For[Worker](
	bounds.Number("Concurrency", 1, bounds.Many).OrDefault(),
	bounds.Duration("Lease", 100*time.Millisecond, bounds.Long).OrDefault(),
	bounds.Duration("Timeout", bounds.Short, bounds.Long).OrDefault(),
	bounds.Number("MaxAttempts", 1, bounds.Many).OrDefault(),
	bounds.Duration("Backoff", bounds.Short, bounds.Long).OrDefault(),
	bounds.Duration("MaxBackoff", bounds.Short, bounds.Long).OrDefault(),
	bounds.Duration("Poll", bounds.Short, bounds.Long).OrDefault(),
	bounds.Duration("Drain", bounds.Short, bounds.Long).OrDefault(),
	bounds.Duration("Retention", bounds.Short, bounds.Long).OrDefault().Or("stet.Never", stet.Never),
)

// Event reports one attempt, or an error of the database: then Result is "error", and there may be
// no ID.
type Event struct {
	// Result is done, retry, dead, unknown, lost or error: the label of
	// idem_outbox_deliveries_total.
	Result  string
	ID      int64
	Topic   string
	Attempt int
	Took    time.Duration // how long the handler ran
	Err     error         // with error and lost
}

var errWorker = errors.New("outbox: worker")

func (w Worker) complete() (Worker, error) {
	switch {
	case w.DB == nil || w.Handler == nil:
		return w, fmt.Errorf("%w: DB and Handler are required", errWorker)
	case w.Dialect != sqlstore.SQLite && w.Dialect != sqlstore.Postgres && w.Dialect != sqlstore.MySQL:
		return w, fmt.Errorf("%w: Dialect is %q; it has to be one of sqlstore's", errWorker, string(w.Dialect))
	}
	if err := workerBounds.Check(&w); err != nil {
		return w, err
	}
	w.Lease, w.Timeout = cmp.Or(w.Lease, 30*time.Second), cmp.Or(w.Timeout, time.Minute)
	w.Backoff, w.MaxBackoff = cmp.Or(w.Backoff, time.Second), cmp.Or(w.MaxBackoff, time.Hour)
	w.Poll, w.Drain = cmp.Or(w.Poll, time.Second), cmp.Or(w.Drain, 20*time.Second)
	w.Retention = cmp.Or(w.Retention, defaultRetention)
	w.Concurrency, w.MaxAttempts = cmp.Or(w.Concurrency, 16), cmp.Or(w.MaxAttempts, 12)
	if w.Observe == nil {
		w.Observe = func(Event) {}
	}
	return w, nil
}

// backoff is the time between the n-th attempt and the next: exponential, with full jitter.
func (w *Worker) backoff(n int) time.Duration {
	limit := w.MaxBackoff
	if shift := max(n-1, 0); shift < 40 && w.Backoff < w.MaxBackoff>>shift {
		limit = w.Backoff << shift
	}
	return rand.N(limit + 1)
}
