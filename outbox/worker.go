package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stet-dev/stet/store/sqlstore"
)

// Worker delivers messages. Any number of them, on any number of hosts, may work on one outbox.
// Fields are set before Run, and not changed after; zero ones get the default in parentheses.
type Worker struct {
	DB      *sql.DB
	Dialect sqlstore.Dialect
	Handler Handler

	// KeyHonoured: the system downstream has each effect once for each downstream key. Then an
	// attempt whose outcome is not known is followed by another, as after [Retry]. Without it such
	// a message is Unknown until a person settles it.
	KeyHonoured bool

	Concurrency int           // deliveries at once (16)
	Lease       time.Duration // how long a dead worker's messages stay with it; extended while a handler runs (30 s)
	// Timeout is how long a handler may take (1 min). Then its context ends, and a second later it
	// is left to itself: its outcome is unknown, as after [Maybe]. One that does not heed its
	// context may still be at it during the next attempt, which follows where KeyHonoured says that
	// this does no harm.
	Timeout     time.Duration
	MaxAttempts int           // then the message is dead (12)
	Backoff     time.Duration // the pause after the n-th attempt is random, of at most Backoff<<(n-1) (1 s) ...
	MaxBackoff  time.Duration // ... and at most this (1 h)
	Poll        time.Duration // the longest pause when there is nothing to do (1 s)
	Drain       time.Duration // how long Run waits, when its context has ended, for what runs (20 s)
	Retention   time.Duration // how long what is done or discarded is kept, or Forever (defaultRetention); see [Box.Reap]

	// Listen tells of messages as others commit them, so that these do not wait for the next look;
	// optional. It calls wake for each, and when it begins to listen; it returns when ctx ends, or
	// when it cannot listen any more. Then Run calls it again after a second, and looks as often as
	// without it. pgxstore.OutboxListener returns one for Postgres.
	Listen func(ctx context.Context, wake func()) error
	// Wake ends a pause early whenever a value comes; optional. It is for those who add messages in
	// the worker's process, and can send, without blocking, after a commit.
	Wake <-chan struct{}

	// Observe is told of every attempt and every trouble; optional. It is called from several
	// goroutines, and must not block.
	Observe func(Event)
}

// Event tells of one attempt, or of trouble with the database: then Result is "error", and there may be no ID.
type Event struct {
	// Result is done, retry, dead, unknown, lost or error: the label of idem_outbox_deliveries_total.
	Result  string
	ID      int64
	Topic   string
	Attempt int
	Took    time.Duration // the handler
	Err     error         // error and lost only
}

var errWorker = errors.New("outbox: worker")

func (w Worker) complete() (Worker, error) {
	switch {
	case w.DB == nil || w.Handler == nil:
		return w, fmt.Errorf("%w: DB and Handler are required", errWorker)
	case w.Dialect != sqlstore.SQLite && w.Dialect != sqlstore.Postgres && w.Dialect != sqlstore.MySQL:
		return w, fmt.Errorf("%w: Dialect is %q; it has to be one of sqlstore's", errWorker, string(w.Dialect))
	case min(w.Concurrency, w.MaxAttempts) < 0,
		min(w.Lease, w.Timeout, w.Backoff, w.MaxBackoff, w.Poll, w.Drain, w.Retention) < 0:
		return w, fmt.Errorf("%w: no field may be negative", errWorker)
	case w.Lease > 0 && w.Lease < 100*time.Millisecond:
		return w, fmt.Errorf("%w: Lease is %s; it has to be 100ms at least", errWorker, w.Lease)
	}
	or := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	or(&w.Lease, 30*time.Second)
	or(&w.Timeout, time.Minute)
	or(&w.Backoff, time.Second)
	or(&w.MaxBackoff, time.Hour)
	or(&w.Poll, time.Second)
	or(&w.Drain, 20*time.Second)
	or(&w.Retention, defaultRetention)
	if w.Concurrency == 0 {
		w.Concurrency = 16
	}
	if w.MaxAttempts == 0 {
		w.MaxAttempts = 12
	}
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
