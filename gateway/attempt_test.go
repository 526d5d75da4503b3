package gateway

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The time that the client takes does not count, a piece that the upstream takes lets it begin
// anew, and an answer may last until the server has been draining for as long.
func TestPatience(t *testing.T) {
	const limit = time.Minute
	synctest.Test(t, func(t *testing.T) {
		for name, row := range map[string]struct {
			act  func(w *watchdog, d *drain)
			last time.Duration // after act; 0: for ever
		}{
			"silent":           {func(*watchdog, *drain) {}, limit},
			"slow client":      {func(w *watchdog, _ *drain) { w.pause(); time.Sleep(5 * limit); w.resume() }, limit},
			"answered":         {func(w *watchdog, _ *drain) { time.Sleep(limit - 1); w.answer(false) }, 0},
			"answered early":   {func(w *watchdog, _ *drain) { w.pause(); w.answer(false); w.resume() }, 0},
			"draining":         {func(w *watchdog, d *drain) { w.answer(false); time.Sleep(limit * 5 / 2); d.begin() }, limit},
			"drains, unasked":  {func(w *watchdog, d *drain) { d.begin() }, limit},
			"upgraded":         {func(w *watchdog, d *drain) { w.answer(true); d.begin() }, 0},
			"over":             {func(w *watchdog, d *drain) { w.answer(false); d.begin(); w.end() }, 0},
			"over, and resume": {func(w *watchdog, _ *drain) { w.pause(); w.end(); w.resume() }, 0},
		} {
			var d drain
			d.enter()
			ctx, stop := context.WithCancelCause(context.WithValue(t.Context(), drainKey{}, &d))
			a := &attempt{Context: ctx, stop: stop}
			a.watchdog.begin(a, limit)
			row.act(&a.watchdog, &d)
			began := time.Now()
			select {
			case <-a.Done():
				if took := time.Since(began); took != row.last || !errors.Is(context.Cause(a), context.DeadlineExceeded) {
					t.Errorf("%s: ended after %s, want %s: %v", name, took, row.last, context.Cause(a))
				}
			case <-time.After(100 * limit):
				if row.last != 0 {
					t.Errorf("%s: it did not end", name)
				}
			}
			a.watchdog.end()
			stop(nil)
		}
	})
}

func TestIdleWithin(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"timeout=5": 4 * time.Second, "timeout=5, max=100": 4 * time.Second, "max=1 , Timeout = 2": time.Second, "timeout=1": time.Second / 2,
		"timeout=0": 1, "timeout=60": 59 * time.Second, "max=5": 0, "": 0, "timeout": 0, "timeout=": 0, "timeout=-1": 0, "timeout=1.5": 0, "timeout=99999999999": 0,
	} {
		if got, ok := idleWithin(line); ok != (want > 0) || ok && got != want {
			t.Errorf("%q: %s, %t, want %s", line, got, ok, want)
		}
	}
}
