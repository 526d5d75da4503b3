package stet_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

func TestARecordThatCannotBeReadStopsNoLoop(t *testing.T) { // I15: it is corrupt for its key alone
	bubble(t, stet.Config{}, func(h *house) {
		for i := range 3 {
			h.begin(request(fmt.Sprint("lapses", i)), stet.Execute)
			h.settle(h.begin(request(fmt.Sprint("done", i)), stet.Execute).Claim)
			after(time.Millisecond)
		}
		h.store.Corrupt(request("lapses0").ID)
		h.store.Corrupt(request("done0").ID)
		after(stet.DefaultRetain + time.Hour)
		for name, page := range map[string]func(context.Context, string, int) (int, string, error){"sweep": h.Operator().Sweep, "reap": h.Operator().Reap} {
			ended := 0
			for after, pages := "", 0; pages == 0 || after != ""; pages++ {
				n, next, err := page(h.t.Context(), after, 1)
				if err != nil || pages > 5 {
					h.t.Fatal(name, pages, err)
				}
				ended, after = ended+n, next
			}
			if ended != 2 {
				h.t.Errorf("%s: %d ended, want 2", name, ended)
			}
		}
	})
}

func TestLoopsStopWithTheStoreAndWithTheirContext(t *testing.T) {
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		const abreast = 8 // what is begun is finished
		for i := range 3 * abreast {
			must(t, e, request(fmt.Sprint(i)), stet.Execute)
		}
		after(stet.DefaultLease)
		s.before = func(verb string, _ int) error { return map[string]error{"replace": errLost}[verb] }
		began := time.Now()
		if n, _, err := e.Operator().Sweep(t.Context(), "", 10); n != 0 || !errors.Is(err, errLost) || time.Since(began) > 2*stet.DefaultStoreTimeout {
			t.Errorf("a store that is away: %d, %v after %v", n, err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := s.count("replace")
		s.before = func(verb string, n int) error {
			if verb != "replace" || n-first < abreast/2 {
				return nil
			}
			cancel()
			return errLost // for some, after the walk has ended
		}
		if n, next, err := e.Operator().Sweep(ctx, "", 40); n == 0 || n > abreast+1 || next != "" || !errors.Is(err, context.Canceled) {
			t.Errorf("%d swept after the end, %v", n, err)
		}
	})
}

func TestReaperAndJudgeAgreeOnHowLongAKeyIsRefused(t *testing.T) { // TT-08
	rules := stet.Rules{Retain: time.Hour, KeepExpired: time.Hour}
	for _, c := range []struct {
		reaped, asked time.Duration
		want          stet.Verdict
	}{
		{time.Hour, 2*time.Hour - time.Microsecond, stet.Gone},
		{time.Hour, 2 * time.Hour, stet.Execute},
		{90 * time.Minute, 2*time.Hour - time.Microsecond, stet.Gone},
		{90 * time.Minute, 2 * time.Hour, stet.Execute},
		{2 * time.Hour, 2 * time.Hour, stet.Execute}, // it came too late to refuse anybody
	} {
		bubble(t, stet.Config{Policy: stet.Policy{Rules: rules}}, func(h *house) {
			began := time.Now()
			h.settle(h.begin(request("k"), stet.Execute).Claim)
			after(c.reaped - time.Since(began))
			if n, _, err := h.Operator().Reap(h.t.Context(), "", 10); n != 1 || err != nil {
				h.t.Fatalf("reaped %d, %v", n, err)
			}
			after(c.asked - time.Since(began))
			h.begin(request("k"), c.want)
		})
	}
}

// TestLoopsAndRequestsMoveARecordOnce holds sweepers, reapers, holders and requests against each
// other at the instant at which a record falls due.
func TestLoopsAndRequestsMoveARecordOnce(t *testing.T) { // W16, W17, CR-15
	for _, c := range []struct {
		name  string
		leave func(h *house) *stet.Claim // a holder that settles in the same instant
		due   time.Duration
	}{
		{"the lease of a crashed holder", func(h *house) *stet.Claim { h.begin(request("k"), stet.Execute); return nil }, stet.DefaultLease},
		{"the lease of a holder who settles", func(h *house) *stet.Claim { return h.begin(request("k"), stet.Execute).Claim }, stet.DefaultLease},
		{"the retention of a result", func(h *house) *stet.Claim { h.settle(h.begin(request("k"), stet.Execute).Claim); return nil }, stet.DefaultRetain},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 20 {
				bubble(t, stet.Config{}, func(h *house) { raceForOne(h, c.leave(h), c.due) })
			}
		})
	}
}

func raceForOne(h *house, holder *stet.Claim, due time.Duration) {
	after(due)
	var executed, settled, moved atomic.Int64
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			n, _, err := h.Operator().Sweep(h.t.Context(), "", 10)
			m, _, err2 := h.Operator().Reap(h.t.Context(), "", 10)
			moved.Add(int64(n + m))
			if err != nil || err2 != nil {
				h.t.Error(err, err2)
			}
		})
		wg.Go(func() {
			d, err := h.Begin(h.t.Context(), request("k"))
			if err != nil {
				h.t.Error(err)
			}
			if d.Verdict == stet.Execute {
				executed.Add(1)
			}
		})
	}
	if holder != nil {
		wg.Go(func() {
			switch err := holder.Settle(h.t.Context(), result("ok")); {
			case err == nil:
				settled.Add(1)
			case !errors.Is(err, stet.ErrFenced):
				h.t.Error(err)
			}
		})
	}
	wg.Wait()
	unknown := h.saw(func(e stet.Event) bool { return e.Kind == stet.Transition && e.To == stet.Unknown })
	if due == stet.DefaultLease {
		if executed.Load() != 0 || int64(unknown)+settled.Load() != 1 {
			h.t.Errorf("%d executed, %d became unknown, %d settled", executed.Load(), unknown, settled.Load())
		}
	} else if executed.Load() != 1 || moved.Load() > 1 {
		h.t.Errorf("%d executed, %d were moved by loops", executed.Load(), moved.Load())
	}
}

func TestFenceGrowsAcrossLives(t *testing.T) { // also across deletion
	bubble(t, stet.Config{}, func(h *house) {
		var last int64
		for i := range 12 {
			c := h.begin(request("k"), stet.Execute).Claim
			if c.Fence() <= last {
				h.t.Fatalf("execution %d has fence %d after %d", i, c.Fence(), last)
			}
			last = c.Fence()
			if i%3 > 0 {
				c.NotExecuted("declined")
			}
			h.settle(c)
			if i%3 == 0 { // a result: gone by the reaper, or by the next request
				after(stet.DefaultRetain)
				if i%2 == 0 {
					_, _, _ = h.Operator().Reap(h.t.Context(), "", 10)
				}
			}
		}
	})
}

func TestWhatIsOverGoesTogether(t *testing.T) { // I10
	bubble(t, stet.Config{}, func(h *house) {
		for i := range 5 {
			h.settle(h.begin(request(fmt.Sprint("done", i)), stet.Execute).Claim)
		}
		kept := request("kept")
		kept.Policy = &stet.Policy{Rules: stet.Rules{KeepExpired: 48 * time.Hour}}
		h.settle(h.begin(kept, stet.Execute).Claim)
		h.begin(request("runs"), stet.Execute)
		after(stet.DefaultRetain + time.Second)
		if n, _, err := h.Operator().Reap(h.t.Context(), "", 4); n != 4 || err != nil {
			h.t.Errorf("%d reaped, %v; want 4", n, err)
		}
		if n, _, err := h.Operator().Reap(h.t.Context(), "", 0); n != 2 || err != nil {
			h.t.Errorf("%d reaped, %v; want the fifth, and one that is kept as expired", n, err)
		}
		if h.saw(func(e stet.Event) bool { return e.Kind == stet.Reaped && e.Count == 4 }) != 1 ||
			h.saw(func(e stet.Event) bool { return e.Kind == stet.Reaped && e.Count == 1 }) != 1 ||
			h.saw(func(e stet.Event) bool { return e.By == "reaper" && e.To == stet.Expired }) != 1 {
			h.t.Errorf("told of %+v", h.events)
		}
		h.begin(kept, stet.Gone)
	})
}
