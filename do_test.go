package stet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// TestRetryAfterOfARun: who asks after a short operation is not sent away for as long as a lease
// lasts (C08).
func TestRetryAfterOfARun(t *testing.T) {
	const lease, limit = 60 * time.Second, 30 * time.Second
	for _, c := range []struct{ ran, want time.Duration }{
		{0, time.Second}, {1500 * time.Millisecond, 2 * time.Second}, {4 * time.Second, 4 * time.Second},
		{23 * time.Second, 23 * time.Second},
		{25 * time.Second, limit},            // in doubt: the rest of the lease is longer
		{31 * time.Second, 29 * time.Second}, // the rest of the lease
		{59 * time.Second, time.Second},
	} {
		bubble(t, stet.Config{Policy: stet.Policy{Lease: lease}}, func(h *house) {
			h.begin(request("k"), stet.Execute)
			time.Sleep(c.ran)
			if d := h.begin(request("k"), stet.InProgress); d.RetryAfter(limit) != c.want {
				h.t.Errorf("after %s: %s, want %s", c.ran, d.RetryAfter(limit), c.want)
			}
		})
	}
	bubble(t, stet.Config{Policy: stet.Policy{Lease: time.Hour}}, func(h *house) {
		h.begin(request("k"), stet.Execute)
		time.Sleep(10 * time.Minute)
		if d := h.begin(request("k"), stet.InProgress); d.RetryAfter(limit) != limit {
			h.t.Errorf("over the limit: %s", d.RetryAfter(limit))
		}
	})
}

// A second attempt has not run since the first one began.
func TestRetryAfterOfALaterAttempt(t *testing.T) { // C08
	bubble(t, stet.Config{}, func(h *house) {
		first := h.begin(request("k"), stet.Execute)
		time.Sleep(20 * time.Second)
		first.Claim.NotExecuted("declined")
		h.settle(first.Claim)
		time.Sleep(time.Minute)
		h.begin(request("k"), stet.Execute)
		time.Sleep(2 * time.Second)
		if d := h.begin(request("k"), stet.InProgress); d.RetryAfter(time.Minute) != 2*time.Second {
			h.t.Errorf("%s, want 2s", d.RetryAfter(time.Minute))
		}
	})
}

// A suspended run has no holder: it is worth asking when it may go on.
func TestRetryAfterOfASuspendedRun(t *testing.T) { // C08
	bubble(t, stet.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		if err := d.Claim.Suspend(h.t.Context(), stet.Step{Point: "charged"}, 20*time.Second); err != nil {
			h.t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		waiting := h.begin(request("k"), stet.InProgress)
		if waiting.RetryAfter(time.Minute) != 15*time.Second || waiting.Record.Cause != stet.CauseSuspended {
			h.t.Errorf("%s, cause %q", waiting.RetryAfter(time.Minute), waiting.Record.Cause)
		}
		time.Sleep(15 * time.Second)
		h.begin(request("k"), stet.Execute)
		time.Sleep(3 * time.Second)
		again := h.begin(request("k"), stet.InProgress)
		if again.RetryAfter(time.Minute) != 3*time.Second || again.Record.Cause != "" {
			h.t.Errorf("resumed: %s, cause %q", again.RetryAfter(time.Minute), again.Record.Cause)
		}
	})
}

// TestMismatchNamesItsParts: also where the record's recipe is not today's, and where a caller
// waits (C18).
func TestMismatchNamesItsParts(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		if got := h.begin(other("k"), stet.Mismatch); !slices.Equal(got.Mismatch, []string{"body"}) {
			h.t.Errorf("%q", got.Mismatch)
		}
		raw, err := stet.Recipe{Body: stet.BodyRaw}.Compile()
		if err != nil {
			h.t.Fatal(err)
		}
		q := other("k")
		q.Recipe, q.Subject.Method = raw, "PUT"
		if got := h.begin(q, stet.Mismatch); !slices.Equal(got.Mismatch, []string{"method", "body"}) {
			h.t.Errorf("by another recipe: %q", got.Mismatch)
		}
		h.settle(d.Claim)
		_, err = stet.Do(h.t.Context(), h.Engine, other("k"), func(context.Context, *stet.Claim) (int, error) { return 0, nil })
		if refused, ok := errors.AsType[*stet.Refused](err); !ok || !slices.Equal(refused.Mismatch, []string{"body"}) {
			h.t.Errorf("Do: %v", err)
		}
	})
}

// doing runs DoResult; the n-th execution returns n, after it took d.
func (h *house) doing(q stet.Request, d time.Duration, cause string) (stet.Result[int], error) {
	return stet.DoResult(h.t.Context(), h.Engine, q, func(_ context.Context, c *stet.Claim) (int, error) {
		time.Sleep(d)
		if cause != "" {
			c.NotExecuted(cause)
			return 0, errDeclined
		}
		return c.Attempt(), nil
	})
}

// TestDoTells: whether the result is a replay, and of which attempt (C21).
func TestDoTells(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		if r, err := h.doing(request("k"), 0, "declined"); !errors.Is(err, errDeclined) || r.Replayed || r.Attempt != 1 {
			h.t.Errorf("%+v, %v", r, err)
		}
		if r, err := h.doing(request("k"), 0, ""); err != nil || r != (stet.Result[int]{Value: 2, Attempt: 2}) {
			h.t.Errorf("%+v, %v", r, err)
		}
		if r, err := h.doing(request("k"), 0, ""); err != nil || r != (stet.Result[int]{Value: 2, Replayed: true, Attempt: 2}) {
			h.t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestDoWaits: for as long as it may, for a result or for its own turn (C21).
func TestDoWaits(t *testing.T) {
	for _, c := range []struct {
		name         string
		wait, runs   time.Duration
		cause        string // the first run says that nothing happened
		want         stet.Result[int]
		refused      stet.Verdict
		after, retry time.Duration
	}{
		{"not at all", 0, 10 * time.Second, "", stet.Result[int]{}, stet.InProgress, 0, time.Second},
		{"for the result", 30 * time.Second, 10 * time.Second, "", stet.Result[int]{Value: 1, Replayed: true, Attempt: 1}, 0, 9 * time.Second, 0},
		{"for its turn", 30 * time.Second, 10 * time.Second, "declined", stet.Result[int]{Value: 2, Attempt: 2}, 0, 9 * time.Second, 0},
		{"too short", 4 * time.Second, 10 * time.Second, "", stet.Result[int]{}, stet.InProgress, 4 * time.Second, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, stet.Config{}, func(h *house) {
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _ = h.doing(request("k"), c.runs, c.cause)
				}()
				time.Sleep(time.Second)
				began := time.Now()
				q := request("k")
				q.Wait = c.wait
				got, err := h.doing(q, 0, "")
				refused, _ := errors.AsType[*stet.Refused](err)
				switch {
				case got != c.want || time.Since(began) != c.after:
					h.t.Errorf("%+v after %s, want %+v after %s", got, time.Since(began), c.want, c.after)
				case c.refused == 0 && err != nil:
					h.t.Error(err)
				case c.refused != 0 && (refused == nil || refused.Verdict != c.refused || refused.RetryAfter != c.retry):
					h.t.Errorf("%+v, want %v and %s", refused, c.refused, c.retry)
				}
				<-ended
			})
		})
	}
}

// Who may not wait, because too many do, is told at once; of many who wait, one runs.
func TestDoWaitsWithinTheBound(t *testing.T) { // C21
	bubble(t, stet.Config{MaxWaiters: 1}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		q := request("k")
		q.Wait = time.Minute
		waited := make(chan stet.Result[int])
		go func() {
			r, _ := h.doing(q, 0, "")
			waited <- r
		}()
		time.Sleep(time.Second)
		began := time.Now()
		if _, err := h.doing(q, 0, ""); err == nil || time.Since(began) != 0 {
			h.t.Errorf("one too many: %v after %s", err, time.Since(began))
		}
		d.Claim.NotExecuted("declined")
		h.settle(d.Claim)
		if r := <-waited; r.Attempt != 2 || r.Replayed {
			h.t.Errorf("%+v", r)
		}
	})
}

// A consumer that tells duplicates from work, and waits for the worker that has the key rather than
// coming back later.
func ExampleDoResult() {
	engine := exampleEngine()
	for range 2 { // a queue delivers a message twice
		receipt, err := stet.DoResult(context.Background(), engine, stet.Request{
			ID:      stet.ID{Scope: "invoices", Key: "message-8"},
			Subject: stet.Subject{Body: []byte(`{"amount":10}`)},
			Wait:    10 * time.Second,
		}, func(context.Context, *stet.Claim) (string, error) { return "receipt 1", nil })
		fmt.Println(receipt.Value, "replayed:", receipt.Replayed, "attempt:", receipt.Attempt, err)
	}
	// Output:
	// receipt 1 replayed: false attempt: 1 <nil>
	// receipt 1 replayed: true attempt: 1 <nil>
}
