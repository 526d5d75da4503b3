package stet_test

import (
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// Who waits for a holder that has died is told soon after it should have renewed its lease, by a
// verdict that frees nothing, and comes again when the lease is over. Who comes later does not
// wait, unless the end is near.
func TestWaitersOfADeadHolder(t *testing.T) { // R07
	for _, c := range []struct {
		comes, told time.Duration
		want        stet.Verdict
		again       time.Duration
	}{
		{0, 24 * time.Second, stet.InProgress, 36 * time.Second},
		{10 * time.Second, 24 * time.Second, stet.InProgress, 36 * time.Second},
		{40 * time.Second, 40 * time.Second, stet.InProgress, 20 * time.Second},
		{56 * time.Second, 60 * time.Second, stet.Unresolved, 0},
	} {
		bubble(t, stet.Config{}, func(h *house) {
			h.begin(request("k"), stet.Execute) // it is not held: its holder is gone
			began := time.Now()
			time.Sleep(c.comes)
			q := request("k")
			q.Wait = 10 * time.Minute
			d := h.begin(q, c.want)
			if took := time.Since(began); took < c.told || took > c.told+time.Second {
				h.t.Errorf("who came after %v was told after %v, want %v", c.comes, took, c.told)
			}
			if again := d.RetryAfter(time.Minute); c.want == stet.InProgress && again != c.again {
				h.t.Errorf("who came after %v is to come again after %v, want %v", c.comes, again, c.again)
			}
			if c.want == stet.InProgress && h.record("k").State != stet.Running {
				h.t.Errorf("that has changed the record to %v", h.record("k").State)
			}
		})
	}
}

// A holder that lives is waited for, also if the store does not take its first renewal.
func TestWaitersOfALivingHolder(t *testing.T) { // R07
	shelved(t, stet.Config{Policy: stet.Policy{Execution: stet.Never}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		elsewhere, err := stet.New(s, stet.Config{Policy: stet.Policy{Execution: stet.Never}})
		if err != nil {
			t.Fatal(err)
		}
		c := must(t, elsewhere, request("k"), stet.Execute).Claim
		c.Hold(t.Context(), nil)
		lost := 0
		s.before = func(verb string, _ int) error {
			if verb == "replace" && lost == 0 {
				lost++
				return errLost
			}
			return nil
		}
		go func() {
			after(200 * time.Second)
			if err := c.Settle(t.Context(), result("ok")); err != nil {
				t.Error(err)
			}
		}()
		q := request("k")
		q.Wait = 10 * time.Minute
		if d := must(t, e, q, stet.Replay); string(d.Record.Response.Body) != "ok" || lost != 1 {
			t.Errorf("%q, %d renewals were lost", d.Record.Response.Body, lost)
		}
	})
}

// A suspended run has no holder: who waits for it waits until it may go on.
func TestWaitersOfASuspendedRun(t *testing.T) { // R07
	bubble(t, stet.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		if err := d.Claim.Suspend(h.t.Context(), stet.Step{Point: "p"}, time.Minute); err != nil {
			h.t.Fatal(err)
		}
		began := time.Now()
		q := request("k")
		q.Wait = 10 * time.Minute
		h.begin(q, stet.Execute)
		if took := time.Since(began); took != time.Minute {
			h.t.Errorf("it went on after %v", took)
		}
	})
}
