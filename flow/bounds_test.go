package flow

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/store/memstore"
)

// Numbers that cannot be meant are refused where they enter.
func TestNumbersHaveBounds(t *testing.T) { // K12
	type state struct{}
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	call := Foreign("call", func(context.Context, *Call, *state) error { return nil })
	valid := func() Config[state] {
		return Config[state]{Name: "f", Engine: e, Answer: func(*state) stet.Response { return stet.Response{Status: 200} }}
	}
	bounds.Refuses(t, configBounds, valid, func(c Config[state]) error { _, err := New(c, call); return err })
	completer := func() Completer { return Completer{Engine: e, Flows: []Resumer{(*Flow[state])(nil)}} }
	bounds.Refuses(t, completerBounds, completer, func(c Completer) error {
		ended, end := context.WithCancel(t.Context())
		end()
		return c.Run(ended)
	})
	for d, taken := range map[time.Duration]bool{24: false, -2: false, 0: true, stet.Never: true, time.Minute: true, bounds.Long + 1: false} {
		_, err := New(valid(), call.Settle(d))
		if taken != (err == nil) || err != nil && !strings.Contains(err.Error(), `phase "call": Settle is `+d.String()) {
			t.Errorf("Settle(%s): %v", d, err)
		}
	}
}

// An answer that cannot be replayed ends nothing, and is no reason to run the phases again.
func TestAnswersHaveAStatus(t *testing.T) { // K12
	for _, status := range []int{0, 42, 1000} {
		e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		f, err := New(Config[int]{Name: "f", Engine: e, Answer: func(*int) stet.Response { return stet.Response{Status: status} }},
			Foreign("call", func(ctx context.Context, c *Call, _ *int) error {
				return c.Do(ctx, func(context.Context, string) error { calls++; return nil })
			}))
		if err != nil {
			t.Fatal(err)
		}
		q := stet.Request{ID: stet.ID{Scope: "s", Key: "k"}}
		if _, err := f.Do(t.Context(), q, 0); err == nil || !strings.Contains(err.Error(), "Response.Status is ") {
			t.Errorf("status %d: %v", status, err)
		}
		if _, err := f.Do(t.Context(), q, 0); err == nil || calls != 1 {
			t.Errorf("status %d: the retry: %v, after %d calls", status, err, calls)
		}
		if r, err := e.Get(t.Context(), q.ID); err != nil || r.State != stet.Unknown {
			t.Errorf("status %d: the record is %v, %v", status, r.State, err)
		}
	}
}
