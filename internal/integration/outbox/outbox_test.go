package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/outbox"
)

// CR-13: a transaction rolled back leaves nothing; one effect of one record is in the outbox once,
// and the transaction goes on.
func TestAdd(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		record := outbox.Record{ID: stet.ID{Scope: "s\x00\xff\\", Key: "it's\"\x00\xfe"}, Life: time.UnixMicro(1_700_000_000_123_456).UTC()}
		m := outbox.Message{Topic: "charge", Record: record, Payload: []byte("\x00\xff'\\\"?$1"),
			Meta: map[string]string{"trace": "a\u0000\n'\\"}, OrderKey: `o'\?`}
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.box.Add(t.Context(), tx, m), tx.Rollback()); err != nil {
			t.Fatal(err)
		}
		if all := db.list(t); len(all) != 0 {
			t.Fatalf("a transaction that was rolled back left %v", all)
		}
		db.add(t, m)
		if tx, err = db.BeginTx(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := db.box.Add(t.Context(), tx, m); !errors.Is(err, stet.ErrExists) {
			t.Errorf("the same effect again: %v", err)
		}
		other := m
		other.Name = "fee"
		if err := errors.Join(db.box.Add(t.Context(), tx, other), tx.Commit()); err != nil {
			t.Fatal(err)
		}
		all := db.list(t)
		if len(all) != 2 || all[0].DownstreamKey == all[1].DownstreamKey || len(all[0].DownstreamKey) > 64 {
			t.Fatalf("messages: %v", all)
		}
		got := all[0]
		if got.Record != m.Record || got.Topic != m.Topic || got.OrderKey != m.OrderKey || !bytes.Equal(got.Payload, m.Payload) ||
			!maps.Equal(got.Meta, m.Meta) || got.State != outbox.Pending || time.Since(got.CreatedAt).Abs() > time.Minute {
			t.Errorf("stored %+v of %+v", got, m)
		}
	})
}

// What each result makes of a message, with a system downstream that honours the key and with one
// that does not (S1-40).
func TestResults(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name      string
		handler   outbox.Handler
		honoured  bool
		attempts  int
		want      outbox.State
		wantError string
	}{
		{"done", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Delivered() }, false, 1, outbox.Done, ""},
		{"retry", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Retry(0, boom) }, false, 3, outbox.Dead, "retry: boom"},
		{"decline", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Decline("no funds") }, false, 1, outbox.Dead, "declined: no funds"},
		{"unknown", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Maybe(boom) }, false, 1, outbox.Unknown, "unknown: boom"},
		{"unknown, key honoured", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Maybe(boom) }, true, 3, outbox.Dead, "unknown: boom"},
		{"panic", func(context.Context, *outbox.Delivery) outbox.Result { panic("ouch\x00\xff") }, false, 1, outbox.Unknown, "panicked"},
		{"nothing", func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Result{} }, false, 1, outbox.Unknown, "no result"},
	} {
		t.Run(c.name, func(t *testing.T) {
			on(t, func(t *testing.T, db *database) {
				db.add(t, outbox.Message{Topic: "t", KeyHonoured: c.honoured})
				var mu sync.Mutex
				keys := map[string]bool{}
				w := db.worker(func(ctx context.Context, d *outbox.Delivery) outbox.Result {
					mu.Lock()
					keys[d.DownstreamKey] = true
					mu.Unlock()
					if err := d.Downstream(ctx, "ch_1"); err != nil {
						t.Error(err)
					}
					return c.handler(ctx, d)
				})
				w.MaxAttempts = 3
				until(t, w, c.attempts)
				got := db.list(t)[0]
				if got.State != c.want || got.Attempt != c.attempts || len(keys) != 1 || got.DownstreamID != "ch_1" {
					t.Errorf("%s after %d attempts with %d keys, id %q", got.State, got.Attempt, len(keys), got.DownstreamID)
				}
				want := c.attempts
				if c.wantError == "" {
					want = 0
				}
				if len(got.Errors) != want {
					t.Fatalf("%d errors are kept of %d: %v", len(got.Errors), want, got.Errors)
				}
				for i, f := range got.Errors {
					if f.Attempt != i+1 || !strings.Contains(f.Error, c.wantError) {
						t.Errorf("error %d: %+v", i, f)
					}
				}
			})
		})
	}
}

// Of one order key one message at a time, in order, whichever worker delivers; a dead one holds up
// those behind it until it is settled, and nothing else (CR-12).
func TestOrder(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		const lines, each = 4, 5
		for i := range each {
			for l := range lines {
				db.add(t, outbox.Message{Topic: "t", OrderKey: fmt.Sprint(l), Payload: []byte{byte(i)}})
			}
		}
		var mu sync.Mutex
		busy, seen := map[string]bool{}, map[string][]byte{}
		w := db.worker(func(ctx context.Context, d *outbox.Delivery) outbox.Result {
			mu.Lock()
			defer mu.Unlock()
			if busy[d.OrderKey] {
				t.Error("two of one order key at once")
			}
			busy[d.OrderKey] = true
			mu.Unlock()
			err := d.Downstream(ctx, "x") // a while
			mu.Lock()
			busy[d.OrderKey] = false
			if d.OrderKey == "0" && d.Payload[0] == 2 || err != nil {
				return outbox.Decline("poison")
			}
			seen[d.OrderKey] = append(seen[d.OrderKey], d.Payload[0])
			return outbox.Delivered()
		})
		until(t, w, lines*each-2)
		for l := range lines {
			want := []byte{0, 1, 2, 3, 4}
			if l == 0 {
				want = want[:2]
			}
			if got := seen[fmt.Sprint(l)]; !slices.Equal(got, want) {
				t.Errorf("line %d: %v", l, got)
			}
		}
		all := db.list(t)
		dead := all[slices.IndexFunc(all, func(m outbox.Stored) bool { return m.State == outbox.Dead })]
		counts, err := db.shows().Counts(t.Context())
		if err != nil || counts[outbox.Dead] != 1 || counts[outbox.Pending] != 2 {
			t.Errorf("counts %v, %v", counts, err)
		}
		if err := db.desk(t).Discard(t.Context(), dead.Seen(), "ann", "sent by hand"); err != nil {
			t.Fatal(err)
		}
		until(t, w, 2)
		if got := seen["0"]; !slices.Equal(got, []byte{0, 1, 3, 4}) {
			t.Errorf("after the discard: %v", got)
		}
		if n, err := db.box.Reap(t.Context(), db.DB, 0, 1000); n != lines*each || err != nil {
			t.Errorf("reaped %d, %v", n, err)
		}
	})
}

func TestByHand(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		ctx := t.Context()
		db.add(t, outbox.Message{Topic: "t"})
		id := db.list(t)[0].ID
		if err := db.desk(t).Retry(ctx, db.seen(t, id), "ann", "why"); !errors.Is(err, stet.ErrState) {
			t.Errorf("a pending message: %v", err)
		}
		if err := db.desk(t).Discard(ctx, outbox.Seen{ID: id + 1, Version: 1}, "ann", "why"); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("no message: %v", err)
		}
		if err := db.desk(t).Retry(ctx, db.seen(t, id), "", ""); err == nil {
			t.Error("nobody, for no reason")
		}
		until(t, db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Decline("no") }), 1)
		if err := db.desk(t).Retry(ctx, db.seen(t, id), "ann", "funds are there"); err != nil {
			t.Fatal(err)
		}
		until(t, db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Delivered() }), 1)
		got, err := db.shows().Show(ctx, id)
		if err != nil || got.State != outbox.Done || got.Attempt != 1 || len(got.Errors) != 2 || got.Errors[1].Error != "retried by ann: funds are there" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// What runs when the context ends gets the time to finish; a lease that another process has swept
// cannot be written any more (I3).
func TestDrainAndFence(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		db.add(t, outbox.Message{Topic: "t"})
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		events := make(chan outbox.Event, 10)
		w := db.worker(func(hctx context.Context, d *outbox.Delivery) outbox.Result {
			cancel()
			<-release
			if hctx.Err() != nil {
				t.Error("cancelled while draining")
			}
			return outbox.Delivered()
		})
		w.Lease = time.Minute
		w.Observe = func(e outbox.Event) { events <- e }
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		<-ctx.Done()
		close(release)
		if err := <-ended; err != nil || db.list(t)[0].State != outbox.Done {
			t.Errorf("drained: %v, %v", err, db.list(t))
		}
		<-events

		db.add(t, outbox.Message{Topic: "t"})
		w.Handler = func(hctx context.Context, d *outbox.Delivery) outbox.Result {
			if _, err := db.ExecContext(hctx, "UPDATE stet_outbox SET version = version + 1, attempt = attempt + 1 WHERE state = 'running'"); err != nil {
				t.Error(err)
			}
			if err := d.Downstream(hctx, "late"); !errors.Is(err, outbox.ErrLost) {
				t.Errorf("a late holder writes an id: %v", err)
			}
			return outbox.Delivered()
		}
		if e := until(t, w, 1)[0]; e.Result != "lost" || db.list(t)[1].State != outbox.Running {
			t.Errorf("a late holder settled: %+v", e)
		}

		db.add(t, outbox.Message{Topic: "t"})
		w.Handler = func(hctx context.Context, d *outbox.Delivery) outbox.Result { // a settlement whose answer was lost
			if _, err := db.ExecContext(hctx, fmt.Sprintf("UPDATE stet_outbox SET version = version + 1, state = 'done' WHERE id = %d", d.ID)); err != nil {
				t.Error(err)
			}
			return outbox.Delivered()
		}
		if e := until(t, w, 1)[0]; e.Result != "done" {
			t.Errorf("settled twice: %+v", e)
		}
	})
}

// A handler that ignores its context does not keep Run.
func TestDrainLimit(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		db.add(t, outbox.Message{Topic: "t"})
		ctx, cancel := context.WithCancel(t.Context())
		release, done := make(chan struct{}), make(chan struct{})
		w := db.worker(func(context.Context, *outbox.Delivery) outbox.Result { cancel(); <-release; return outbox.Delivered() })
		w.Drain = 10 * time.Millisecond
		w.Observe = func(outbox.Event) { close(done) }
		if err := w.Run(ctx); !errors.Is(err, outbox.ErrDrain) {
			t.Error(err)
		}
		close(release)
		<-done
	})
}
