package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/observe"
	"github.com/stet-dev/stet/store/sqlstore"
)

// checkEvery is how often the settings of the store's server are looked at: others can change
// them while it is open.
const checkEvery = time.Minute

// durability is what is known of the store's server: whether its settings keep what it
// acknowledged.
type durability struct {
	check   func(context.Context) error // see stet.Checker
	timeout time.Duration               // of one look
	metrics *observe.Metrics
	log     *slog.Logger

	again  chan struct{}          // of one: look now
	reason atomic.Pointer[string] // nil: nothing is wrong
}

// watched prepares what the store has beside its verbs. nil: nothing of it can change.
func (a *app) watched() *durability {
	if l, ok := stet.As[sqlstore.LogSizer](a.store.Store); ok {
		a.metrics.StoreLog(l.LogSize)
	}
	c, ok := stet.As[stet.Checker](a.store.Store)
	if !ok {
		return nil
	}
	return &durability{check: c.Check, timeout: a.conf.Store.Timeout.Duration(),
		metrics: a.metrics, log: a.log, again: make(chan struct{}, 1)}
}

// run looks now, every minute, and when it is told to, until ctx ends.
func (d *durability) run(ctx context.Context) {
	t := time.NewTicker(checkEvery)
	defer t.Stop()
	for ctx.Err() == nil {
		d.look(ctx)
		select {
		case <-ctx.Done():
		case <-d.again:
		case <-t.C:
		}
	}
}

// look asks once. What could not be asked leaves what is known as it was: the store's verbs tell
// of a server that is away.
func (d *durability) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	err := d.check(ctx)
	switch {
	case errors.Is(err, stet.ErrVolatile):
		d.metrics.Volatile(true) // before /readyz says it: a monitor that is told there may read the metrics next
		now := strings.TrimPrefix(err.Error(), "stet: ")
		if was := d.reason.Swap(&now); was == nil || *was != now {
			d.log.Error("the store's settings lose records: /readyz is 503 until they are corrected", "error", now)
		}
	case err == nil:
		d.metrics.Volatile(false)
		if d.reason.Swap(nil) != nil {
			d.log.Info("the store's settings keep records again")
		}
	}
}

// soon has the settings looked at now.
func (d *durability) soon() {
	if d == nil {
		return
	}
	select {
	case d.again <- struct{}{}:
	default: // it is about to
	}
}

// unready is why requests are better sent elsewhere; "" if there is no reason.
func (d *durability) unready() string {
	if d == nil {
		return ""
	}
	return valueOf(d.reason.Load())
}
