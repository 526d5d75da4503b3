package outbox

import (
	"context"
	"database/sql/driver"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/sqlstore"
)

// isClaim reports whether the statement is the one that takes messages; on MariaDB that is then
// committed.
func isClaim(query string) bool { return strings.Contains(query, "SET state = 'running'") }

// isOutcome is the same of the one that settles some.
func isOutcome(query string) bool {
	return strings.Contains(query, "SET state = 'done', version") || strings.Contains(query, "attempt = attempt - ")
}

// A13, A3, W5: a claim whose answer was lost has handed nothing out. Its messages are pending
// again, at once and with no attempt counted, and none is unknown.
func TestLostClaim(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		const messages = 5
		for range messages {
			db.add(t, outbox.Message{Topic: "t"})
		}
		var claiming, lost atomic.Bool
		w := db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Delivered() })
		w.Lease = time.Minute // longer than the test: no lease lapses
		w.DB = db.meddled(t, func(query string, _ []driver.NamedValue, do func() error) error {
			err := do()
			switch {
			case isClaim(query) && db.dialect == sqlstore.MySQL:
				claiming.Store(true)
			case err == nil && (isClaim(query) || query == "COMMIT" && claiming.Load()) && lost.CompareAndSwap(false, true):
				return errCut
			}
			return err
		})
		events := until(t, w, messages+1)
		if events[0].Result != "error" {
			t.Errorf("of the claim: %+v", events[0])
		}
		for _, m := range db.list(t) {
			if m.State != outbox.Done || m.Attempt != 1 || len(m.Errors) != 0 {
				t.Errorf("%s at attempt %d: %v", m.State, m.Attempt, m.Errors)
			}
		}
	})
}

// A13, A3: so is one that the server carries out only after the worker has given it up, and has
// looked for it once.
func TestLateClaim(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		if db.dialect == sqlstore.MySQL {
			return // where a claim is committed with its connection, or not at all
		}
		db.add(t, outbox.Message{Topic: "t"}, outbox.Message{Topic: "t"})
		var mu sync.Mutex
		var late func()
		looks := 0
		w := db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Delivered() })
		w.Lease = time.Minute
		w.DB = db.meddled(t, func(query string, args []driver.NamedValue, do func() error) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case isClaim(query) && looks == 0: // and all others, until it was carried out
				if late == nil {
					var values []any
					for _, v := range args {
						values = append(values, v.Value)
					}
					late = func() {
						rows, err := db.Query(query, values...)
						if err == nil {
							for rows.Next() {
							}
							err = rows.Close()
						}
						if err != nil {
							t.Error(err)
						}
					}
				}
				return errCut
			case strings.Contains(query, "state = 'running' AND version IN"):
				err := do()
				if looks == 0 {
					late()
				}
				looks++
				return err
			}
			return do()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := 0
		w.Observe = func(e outbox.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Result == "done" {
				if done++; done == 2 {
					cancel()
				}
			}
		}
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		for _, m := range db.list(t) {
			if m.State != outbox.Done || m.Attempt != 1 || len(m.Errors) != 0 {
				t.Errorf("%s at attempt %d: %v", m.State, m.Attempt, m.Errors)
			}
		}
	})
}

// A3: an outcome whose answer was lost is written again, and is known to be the holder's own,
// whatever it is.
func TestLostOutcome(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		for want, result := range map[string]outbox.Result{"done": outbox.Delivered(), "dead": outbox.Decline("no"),
			"unknown": outbox.Maybe(errCut), "retry": outbox.Retry(time.Hour, errCut)} {
			for _, order := range []string{"", "k" + want} {
				db.add(t, outbox.Message{Topic: "t", Name: want, OrderKey: order})
				var settling, lost atomic.Bool
				w := db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return result })
				w.Lease = time.Minute
				w.DB = db.meddled(t, func(query string, _ []driver.NamedValue, do func() error) error {
					err := do()
					inTx := order != "" && want == "done" // and is committed
					if inTx && isOutcome(query) {
						settling.Store(true)
					}
					written := !inTx && isOutcome(query) || query == "COMMIT" && settling.Load()
					if err == nil && written && lost.CompareAndSwap(false, true) {
						return errCut
					}
					return err
				})
				if e := until(t, w, 1)[0]; e.Result != want || !lost.Load() {
					t.Errorf("order key %q: %+v instead of %s, answer lost: %t", order, e, want, lost.Load())
				}
			}
		}
	})
}

// A13, I13: the lease counts from before the claim was sent. A claim that took long to answer
// leaves the handler less time, and its context ends before the lease does.
func TestSlowClaim(t *testing.T) {
	tier.Campaign(t, "it measures when a handler is stopped")
	on(t, func(t *testing.T, db *database) {
		const lease = 4500 * time.Millisecond
		db.add(t, outbox.Message{Topic: "t"})
		var mu sync.Mutex
		var sent time.Time
		w := db.worker(func(ctx context.Context, _ *outbox.Delivery) outbox.Result {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			if took := time.Since(sent); took >= lease*5/6 { // two thirds of it, and what a busy machine takes
				t.Errorf("the handler was stopped %s after the claim was sent, with a lease of %s", took, lease)
			}
			return outbox.Maybe(ctx.Err())
		})
		w.Lease = lease
		w.DB = db.meddled(t, func(query string, _ []driver.NamedValue, do func() error) error {
			mu.Lock()
			began := sent
			if isClaim(query) && sent.IsZero() {
				sent = time.Now()
				began = sent
			}
			mu.Unlock()
			switch {
			case isClaim(query):
				err := do()
				<-time.After(time.Until(began.Add(lease * 3 / 10))) // the answer is on its way
				return err
			case strings.Contains(query, "SET updated_at"): // no lease can be extended
				return errCut
			}
			return do()
		})
		until(t, w, 1)
	})
}
