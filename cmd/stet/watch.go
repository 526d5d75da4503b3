package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/observe"
	"github.com/stet-dev/stet/internal/usable"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

// How often the store is looked at: others can change it while it is open.
const (
	checkEvery = time.Minute     // its settings, and whether it can be written
	namedEvery = 5 * time.Second // which store it is; also what was found wrong is looked at again so soon
)

// storeWatch is what is known of the store beside what its verbs answer.
type storeWatch struct {
	looks   []*look
	timeout time.Duration // of one look
	log     *slog.Logger

	again chan struct{} // of one: look now
}

// look is one thing that may be wrong with a store that answers.
type look struct {
	what  observe.StoreFault
	every time.Duration
	ask   func(context.Context) error
	is    func(error) bool // whether an error says that it is so; any other leaves open what is
	gauge func(bool)
	wrong string // for the log
	right string

	next   time.Time
	reason atomic.Pointer[string] // nil: nothing is wrong
}

// watched prepares what the store has beside its verbs. nil: nothing of it can change.
func (a *app) watched() *storeWatch {
	s := a.store.Store
	if l, ok := stet.As[sqlstore.LogSizer](s); ok {
		a.metrics.StoreLog(l.LogSize)
	}
	w := &storeWatch{timeout: a.conf.Store.Timeout.Duration(), log: a.log, again: make(chan struct{}, 1)}
	add := func(fault observe.StoreFault, every time.Duration, ask func(context.Context) error, is func(error) bool, wrong, right string) {
		w.looks = append(w.looks, &look{what: fault, every: every, ask: ask, is: is, wrong: wrong, right: right,
			gauge: func(is bool) { a.metrics.StoreIs(fault, is) }})
	}
	if named, ok := stet.As[stet.Identified](s); ok {
		ask := func(ctx context.Context) error { _, _, err := named.Identity(ctx); return err }
		add(observe.Foreign, namedEvery, ask, isAny(stet.ErrForeign),
			"the store is not the one that it was: no key is new in it, and /readyz is 503, until it is again, or is accepted (stet store accept)",
			"the store is the one that it has to be")
	}
	if c, ok := stet.As[stet.Checker](s); ok {
		add(observe.Volatile, checkEvery, c.Check, isAny(stet.ErrVolatile),
			"the store's settings lose records: /readyz is 503 until they are corrected", "the store's settings keep records again")
	}
	if len(w.looks) > 0 { // one in memory can always be written
		add(observe.Unusable, checkEvery, func(ctx context.Context) error { return usable.Prove(ctx, s, false) },
			func(err error) bool { return !isAny(spared...)(err) },
			"the store cannot be used: /readyz is 503 until it can", "the store can be used again")
	}
	if len(w.looks) == 0 {
		return nil
	}
	return w
}

// spared are errors of a proof that say nothing of all writes, or that are told elsewhere. Replays
// go on from a store that is full.
var spared = []error{stet.ErrForeign, stet.ErrFull, stet.ErrBusy, stet.ErrUnconfirmed, breakerstore.ErrOpen, context.DeadlineExceeded, context.Canceled}

func isAny(targets ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
}

// run looks now, in the intervals, and when it is told to, until ctx ends.
func (w *storeWatch) run(ctx context.Context) {
	t := time.NewTicker(namedEvery)
	defer t.Stop()
	for ctx.Err() == nil {
		for _, l := range w.looks {
			if !time.Now().Before(l.next) {
				w.look(ctx, l)
			}
		}
		select {
		case <-ctx.Done():
		case <-w.again:
			for _, l := range w.looks {
				l.next = time.Time{}
			}
		case <-t.C:
		}
	}
}

// look asks once. What could not be asked leaves what is known as it was: the store's verbs tell
// of a server that is away.
func (w *storeWatch) look(ctx context.Context, l *look) {
	asking, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	err := l.ask(asking)
	l.next = time.Now().Add(l.every)
	switch {
	case err == nil:
		l.gauge(false)
		if l.reason.Swap(nil) != nil {
			w.log.Info(l.right)
		}
	case l.is(err) && ctx.Err() == nil:
		l.gauge(true) // before /readyz says it: a monitor that is told there may read the metrics next
		now := err.Error()
		if _, says, of := strings.Cut(now, "stet: "); of && l.what != observe.Unusable { // without the verb of the store
			now = says
		}
		if was := l.reason.Swap(&now); was == nil || l.what != observe.Unusable && *was != now {
			w.log.Error(l.wrong, "error", now)
		}
		l.next = time.Now().Add(namedEvery)
	}
}

// soon has everything looked at now.
func (w *storeWatch) soon() {
	if w == nil {
		return
	}
	select {
	case w.again <- struct{}{}:
	default: // it is about to
	}
}

// unready is why requests are better sent elsewhere; "" if there is no reason.
func (w *storeWatch) unready() string {
	if w == nil {
		return ""
	}
	for _, l := range w.looks {
		if why := l.reason.Load(); why != nil {
			return *why
		}
	}
	return ""
}
