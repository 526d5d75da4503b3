package stet_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
)

// U01: every lapse is told once, with its cause, by the one that finds it.
func TestEveryLapseIsTold(t *testing.T) {
	sweep := func(h *house, _ *stet.Claim) { _, _, _ = h.Operator().Sweep(h.t.Context(), "", 0) }
	for name, c := range map[string]struct {
		rules stet.Rules
		pause time.Duration // the run is suspended for so long
		find  func(h *house, c *stet.Claim)
		want  []string
		by    string
	}{
		"the sweeper":           {find: sweep, want: []string{"lease-lapsed"}, by: "sweeper"},
		"the sweeper, a commit": {rules: stet.Rules{OnLapse: stet.LapseAtomic}, find: sweep, want: []string{"lease-lapsed"}, by: "sweeper"},
		"a request": {find: func(h *house, _ *stet.Claim) { h.begin(request("k"), stet.Unresolved) },
			want: []string{"lease-lapsed"}, by: "request"},
		"a request that goes on": {rules: stet.Rules{OnLapse: stet.LapseReexecute}, find: func(h *house, _ *stet.Claim) {
			h.settle(h.begin(request("k"), stet.Execute).Claim)
		}, want: []string{"lease-lapsed"}, by: "request"},
		"a waiter": {find: func(h *house, c *stet.Claim) {
			_, _ = h.Await(h.t.Context(), stet.Decision{Verdict: stet.InProgress, Record: stet.Record{Head: c.Head()}}, time.Minute)
		}, want: []string{"lease-lapsed"}, by: "request"},
		"a completer": {rules: stet.Rules{OnLapse: stet.LapseResume}, find: func(h *house, c *stet.Claim) {
			d, err := h.Operator().Resume(h.t.Context(), c.ID())
			if err != nil {
				h.t.Fatal(err)
			}
			h.settle(d.Claim)
		}, want: []string{"lease-lapsed"}, by: "request"},
		"an operator who frees it": {find: func(h *house, c *stet.Claim) {
			for range 2 { // the first finds the lapse, and its holder has time to say that it lives
				_, _ = h.Operator().Resolve(h.t.Context(), c.ID(), execution.Of(h.t.Context(), h.Engine, c.ID()), stet.Resolution{}, stet.Note{Who: "w", Why: "y"})
				after(stet.HolderGrace)
			}
		}, want: []string{"lease-lapsed"}, by: "operator"},
		"an operator who knows": {find: func(h *house, c *stet.Claim) {
			_, err := h.Operator().Resolve(h.t.Context(), c.ID(), execution.Of(h.t.Context(), h.Engine, c.ID()),
				stet.Resolution{Response: &stet.Response{Status: 201}}, stet.Note{Who: "w", Why: "y"})
			if err != nil {
				h.t.Fatal(err)
			}
		}, want: []string{"lease-lapsed"}, by: "operator"},
		"the holder": {find: func(h *house, c *stet.Claim) { h.settle(c) }, want: []string{"lease-lost"}, by: "holder"},
		"the holder, whose store was away": {find: func(h *house, c *stet.Claim) {
			h.store.Down()
			if err := c.Settle(h.t.Context(), result("ok")); err == nil {
				h.t.Error("settled without a store")
			}
			h.store.Up()
			after(10 * time.Second)
		}, want: []string{"lease-lost"}, by: "holder"},
		"nobody goes on with it": {rules: stet.Rules{OnLapse: stet.LapseResume, Retain: time.Hour}, find: func(h *house, c *stet.Claim) {
			sweep(h, c)
			after(time.Hour)
			sweep(h, c)
		}, want: []string{"not-resumed"}, by: "sweeper"},
		"it paused, and goes on": {rules: stet.Rules{OnLapse: stet.LapseResume}, pause: time.Minute, find: func(h *house, c *stet.Claim) {
			h.settle(h.begin(request("k"), stet.Execute).Claim)
		}},
		"it paused, and nobody goes on": {rules: stet.Rules{OnLapse: stet.LapseResume, Retain: time.Hour}, pause: time.Minute, find: func(h *house, c *stet.Claim) {
			after(time.Hour)
			sweep(h, c)
		}, want: []string{"not-resumed"}, by: "sweeper"},
		"it goes on by a decision": {rules: stet.Rules{OnLapse: stet.LapseResume}, find: func(h *house, c *stet.Claim) {
			c.Unknown("timeout")
			_ = c.Settle(h.t.Context(), stet.Outcome{})
			if _, err := h.Operator().Reopen(h.t.Context(), c.ID(), execution.Of(h.t.Context(), h.Engine, c.ID()), stet.Step{Point: "charged"}, stet.Note{Who: "w", Why: "y"}); err != nil {
				h.t.Fatal(err)
			}
			h.settle(h.begin(request("k"), stet.Execute).Claim)
		}, want: []string{"lease-lost"}, by: "holder"}, // of the first run, which was settled too late
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, stet.Config{Policy: stet.Policy{Rules: c.rules}}, func(h *house) {
				q := request("k")
				q.Point = "charged"
				claim := h.begin(q, stet.Execute).Claim
				if c.pause > 0 {
					if err := claim.Suspend(h.t.Context(), stet.Step{Point: "charged"}, c.pause); err != nil {
						t.Fatal(err)
					}
					after(c.pause)
				} else {
					after(stet.DefaultLease)
				}
				c.find(h, claim)
				var told []string
				h.saw(func(e stet.Event) bool {
					if e.Lapse != "" {
						told = append(told, e.Lapse)
						if e.Kind != stet.Transition || e.From != stet.Running || e.By != c.by {
							t.Errorf("%+v", e)
						}
					}
					return false
				})
				if !slices.Equal(told, c.want) {
					t.Errorf("told %q, want %q", told, c.want)
				}
			})
		})
	}
}

// A run that ends in time is no lapse.
func TestARunInTimeIsNoLapse(t *testing.T) { // U01
	bubble(t, stet.Config{}, func(h *house) {
		for key, say := range map[string]func(c *stet.Claim){
			"done": func(*stet.Claim) {}, "unknown": func(c *stet.Claim) { c.Unknown("panic") }, "nothing": func(c *stet.Claim) { c.NotExecuted("declined") },
		} {
			c := h.begin(request(key), stet.Execute).Claim
			say(c)
			h.settle(c)
		}
		if n := h.saw(func(e stet.Event) bool { return e.Lapse != "" }); n != 0 {
			t.Errorf("%d lapses", n)
		}
	})
}

// That new executions are refused is told once, until there is room again.
func TestRefusingForWhatIsUnstoredIsToldOnce(t *testing.T) { // K03
	bubble(t, stet.Config{MaxUnstored: 1}, func(h *house) {
		for round := 1; round <= 2; round++ {
			c := h.begin(request("k"+string(rune('0'+round))), stet.Execute).Claim
			h.store.FailComplete(true)
			_ = c.Settle(h.t.Context(), result("ok"))
			for _, key := range []string{"new-1", "new-2"} {
				if _, err := h.Begin(h.t.Context(), request(key)); !errors.Is(err, stet.ErrUnstored) {
					t.Errorf("%v", err)
				}
			}
			if n := h.saw(func(e stet.Event) bool { return e.Kind == stet.Overfull && e.Count == 1 }); n != round {
				t.Errorf("told %d times in round %d", n, round)
			}
			h.store.FailComplete(false)
			after(10 * time.Second)
			if n, _ := h.Unstored(); n != 0 {
				t.Errorf("%d are unstored", n)
			}
		}
	})
}

// A double effect is open until a person has noted it, or its record says otherwise or is gone.
func TestDoubleEffectsAreOpenUntilNoted(t *testing.T) { // K03c
	bubble(t, stet.Config{}, func(h *house) {
		ctx, op := context.Background(), h.Operator()
		double := func(key string, end func(*stet.Claim)) stet.ID {
			first := h.begin(request(key), stet.Execute).Claim
			after(stet.DefaultLease)
			_, _, _ = op.Sweep(ctx, "", 0)
			free(t, h.Engine, first.ID())
			end(h.begin(request(key), stet.Execute).Claim)
			_ = first.Settle(ctx, result("first"))
			return first.ID()
		}
		done := double("done", h.settle)
		unknown := double("unknown", func(c *stet.Claim) { c.Unknown("timeout"); h.settle(c) })
		open := func(limit int, want ...stet.ID) {
			t.Helper()
			all, err := op.DoubleEffects(ctx, limit)
			if err != nil {
				t.Fatal(err)
			}
			var ids []stet.ID
			for i := range all {
				if ids = append(ids, all[i].ID); all[i].Action() != "double-effect" || all[i].Note.Evidence == "" {
					t.Errorf("%+v", all[i])
				}
			}
			if !slices.Equal(ids, want) {
				t.Errorf("open are %v, want %v", ids, want)
			}
		}
		open(9, unknown, done)
		open(1, unknown)
		if err := op.Audit(ctx, unknown, stet.Note{Who: "kim", Why: "I looked", Action: "reveal"}); err != nil {
			t.Fatal(err)
		}
		open(9, unknown, done)
		h.begin(request("unknown"), stet.Unresolved) // what its client hears
		h.begin(request("done"), stet.Replay)
		of := execution.Of(ctx, h.Engine, unknown)
		if head, err := op.Resolve(ctx, unknown, of, stet.Resolution{Response: &stet.Response{Status: 201}}, stet.Note{Who: "kim", Why: "charged twice"}); err != nil || head.Cause != stet.CauseDoubleEffect {
			t.Fatal(head.Cause, err)
		}
		open(9, unknown, done)
		after(time.Second)
		if err := op.Audit(ctx, unknown, stet.Note{Who: "kim", Why: "refunded re_1", Action: "note"}); err != nil {
			t.Fatal(err)
		}
		open(9, done)
		if err := op.Purge(ctx, done, 0, stet.Note{Who: "kim", Why: "a test"}); err != nil {
			t.Fatal(err)
		}
		open(9)
	})
	shelved(t, stet.Config{}, func(t *testing.T, _ *fakeStore, e *stet.Engine) {
		if _, err := e.Operator().DoubleEffects(t.Context(), 9); !errors.Is(err, stet.ErrUnsupported) {
			t.Error(err)
		}
	})
}
