package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stet-dev/stet/store/sqlstore"
)

// Worker delivers messages. Any number of them, on any number of hosts, may work on one outbox. Fields are set before Run, and
// not changed after; zero ones get the default in parentheses.
type Worker struct {
	DB      *sql.DB
	Dialect sqlstore.Dialect
	Handler Handler

	// KeyHonoured: the system downstream has each effect once for each downstream key. Then an attempt whose outcome is not known
	// is followed by another, as after [Retry]. Without it such a message is Unknown until a person settles it.
	KeyHonoured bool

	Concurrency int           // deliveries at once (16)
	Lease       time.Duration // how long a dead worker's messages stay with it; extended while a handler runs (30 s)
	MaxAttempts int           // then the message is dead (12)
	Backoff     time.Duration // the pause after the n-th attempt is random, of at most Backoff<<(n-1) (1 s) ...
	MaxBackoff  time.Duration // ... and at most this (1 h)
	Poll        time.Duration // the longest pause when there is nothing to do (1 s)
	Drain       time.Duration // how long Run waits, when its context has ended, for what runs (20 s)
	Retention   time.Duration // how long what is done or discarded is kept, or Forever (DefaultRetention); see [Box.Reap]

	// Listen tells of messages as others commit them, so that these do not wait for the next look; optional. It calls wake for
	// each, and when it begins to listen; it returns when ctx ends, or when it cannot listen any more. Then Run calls it again
	// after a second, and looks as often as without it. pgxstore.OutboxListener returns one for Postgres.
	Listen func(ctx context.Context, wake func()) error
	// Wake ends a pause early whenever a value comes; optional. It is for those who add messages in the worker's process, and can
	// send, without blocking, after a commit.
	Wake <-chan struct{}

	// Observe is told of every attempt and every trouble; optional. It is called from several goroutines, and must not block.
	Observe func(Event)
}

// Results are what an [Event] can say: the values of the label of idem_outbox_deliveries_total, for those who count them.
var Results = []string{"done", "retry", "dead", "unknown", "lost", "error"}

// Event tells of one attempt, or of trouble with the database (then Result is "error", and there may be no ID).
type Event struct {
	Result  string // one of Results
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
	case min(w.Concurrency, w.MaxAttempts) < 0 || min(w.Lease, w.Backoff, w.MaxBackoff, w.Poll, w.Drain, w.Retention) < 0:
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
	or(&w.Backoff, time.Second)
	or(&w.MaxBackoff, time.Hour)
	or(&w.Poll, time.Second)
	or(&w.Drain, 20*time.Second)
	or(&w.Retention, DefaultRetention)
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

const (
	minPoll    = 10 * time.Millisecond
	relisten   = time.Second
	sweepEvery = 4 // parts of a lease
)

// Run delivers until ctx ends, waits up to Drain for the handlers that run, and returns nil, or [ErrDrain]. Trouble with the
// database is told to Observe, and tried again. Other errors are of the fields.
func (w Worker) Run(ctx context.Context) error {
	w, err := w.complete()
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r := &run{Worker: w, box: New(w.Dialect), work: work, ended: make(chan struct{}, w.Concurrency), heard: make(chan struct{}, 1)}
	r.group = &group{box: r.box, db: r.DB, limit: r.Lease / 3}
	var beside sync.WaitGroup
	defer beside.Wait()
	if w.Listen != nil {
		beside.Go(func() { r.listen(ctx) })
	}
	if w.Retention != Forever {
		beside.Go(func() { r.reap(ctx) })
	}
	r.loop(ctx)
	return r.drain(stop)
}

// run is one call of Run. Only its own goroutine touches busy and swept.
type run struct {
	Worker
	box   *Box
	group *group
	work  context.Context // of the handlers: it outlives ctx by Drain
	ended chan struct{}   // a value for each delivery that ended
	heard chan struct{}   // a value if Listen has told of something since the last pause
	busy  int
	swept time.Time
}

func (r *run) loop(ctx context.Context) {
	idle := minPoll
	for ctx.Err() == nil {
		for r.busy == r.Concurrency {
			select {
			case <-r.ended:
				r.busy--
			case <-ctx.Done():
				return
			}
		}
		r.collect()
		got, err := r.round(ctx)
		if err != nil && ctx.Err() == nil {
			r.Observe(Event{Result: "error", Err: err})
		}
		for _, m := range got {
			r.busy++
			go r.deliver(&claimed{m, r.box, r.DB})
		}
		if len(got) > 0 {
			idle = minPoll
			continue
		}
		if r.rest(ctx, idle/2+rand.N(idle/2+1)) {
			idle = minPoll // who was told of one message is not told of those right behind it
		} else {
			idle = min(2*idle, max(r.Poll, minPoll))
		}
	}
}

// collect counts what has ended by now.
func (r *run) collect() {
	for {
		select {
		case <-r.ended:
			r.busy--
		default:
			return
		}
	}
}

// round looks after lapsed leases, now and then, and claims what there is room for. A claim that was cut off by ctx may have
// been committed: it gets the time to say so.
func (r *run) round(ctx context.Context) ([]Stored, error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Lease/2)
	defer cancel()
	if time.Since(r.swept) >= r.Lease/sweepEvery {
		to := Unknown
		if r.KeyHonoured {
			to = Pending
		}
		if err := r.box.lapse(call, r.DB, to); err != nil {
			return nil, err
		}
		r.swept = time.Now()
	}
	return r.box.claim(call, r.DB, r.Lease, r.Concurrency-r.busy)
}

// rest pauses, and reports whether somebody has said that there is something to do. The end of a delivery may free an order key,
// and so ends the pause too.
func (r *run) rest(ctx context.Context, d time.Duration) (woken bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-r.Wake:
		return true
	case <-r.heard:
		return true
	case <-r.ended:
		r.busy--
	}
	return false
}

// listen has itself told, and again when that has ended, until ctx ends.
func (r *run) listen(ctx context.Context) {
	for {
		err := r.Listen(ctx, func() {
			select {
			case r.heard <- struct{}{}:
			default:
			}
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.Observe(Event{Result: "error", Err: fmt.Errorf("outbox: listen: %w", err)})
		}
		pause(ctx, relisten)
	}
}

// drain waits for what runs, and cancels it when the time is over.
func (r *run) drain(stop context.CancelFunc) error {
	limit := time.NewTimer(r.Drain)
	defer limit.Stop()
	late := false
	for r.busy > 0 {
		select {
		case <-r.ended:
			r.busy--
		case <-limit.C:
			if late {
				return ErrDrain
			}
			late = true
			stop()
			limit.Reset(time.Second) // for handlers that heed their context
		}
	}
	return nil
}
