package stet_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
)

var note = stet.Note{Who: "ops@host", Why: "asked the provider", Evidence: "ch_1"}

// leave makes a record in a state.
func leave(h *house, s stet.State) {
	c := h.begin(request("k"), stet.Execute).Claim
	switch s {
	case stet.Completed:
	case stet.Retryable:
		c.NotExecuted("declined")
	case stet.Unknown:
		c.Unknown("timeout")
	default:
		return
	}
	h.settle(c)
}

func TestResolvedAsCompleted(t *testing.T) { // I14
	bubble(t, stet.Config{}, func(h *house) {
		leave(h, stet.Unknown)
		answer := result("found").Response
		got, err := h.Operator().Resolve(h.t.Context(), request("k").ID, execution.Of(h.t.Context(), h.Engine, request("k").ID), stet.Resolution{Response: &answer}, note)
		if err != nil || !got.Reconciled || got.Note == nil || *got.Note != note || got.DueAt.Sub(got.UpdatedAt) != stet.DefaultRetain {
			h.t.Fatalf("%+v, %v", got, err)
		}
		if d := h.begin(request("k"), stet.Replay); string(d.Record.Response.Body) != "found" {
			h.t.Errorf("%q", d.Record.Response.Body)
		}
		h.begin(other("k"), stet.Mismatch)
	})
}

func TestResolvedAsNotExecuted(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		leave(h, stet.Unknown)
		if _, err := h.Operator().Resolve(h.t.Context(), request("k").ID, execution.Of(h.t.Context(), h.Engine, request("k").ID), stet.Resolution{}, note); err != nil {
			h.t.Fatal(err)
		}
		c := h.begin(request("k"), stet.Execute).Claim
		if head := c.Head(); c.Attempt() != 2 || head.Note != nil { // a note is of its own change
			h.t.Errorf("attempt %d, %v", c.Attempt(), head.Note)
		}
	})
}

func TestLateHolderAfterResolve(t *testing.T) { // I3: the holder that comes back after a decision changes nothing
	bubble(t, stet.Config{}, func(h *house) {
		c := h.begin(request("k"), stet.Execute).Claim
		after(stet.DefaultLease)
		h.begin(request("k"), stet.Unresolved)
		free(h.t, h.Engine, request("k").ID)
		if err := c.Settle(h.t.Context(), result("late")); !errors.Is(err, stet.ErrFenced) {
			h.t.Error(err)
		}
	})
}

func TestStatesThatRefuseAVerb(t *testing.T) {
	answer := result("x").Response
	verbs := map[string]func(h *house) error{
		"resolve": func(h *house) error {
			_, err := h.Operator().Resolve(h.t.Context(), request("k").ID, execution.Of(h.t.Context(), h.Engine, request("k").ID), stet.Resolution{Response: &answer}, note)
			return err
		},
		"purge": func(h *house) error { return h.Operator().Purge(h.t.Context(), request("k").ID, 0, note) },
		"extend": func(h *house) error {
			_, err := h.Operator().Extend(h.t.Context(), request("k").ID, 0, 2*stet.DefaultRetain, note)
			return err
		},
	}
	for _, c := range []struct {
		verb string
		ok   []stet.State
	}{
		{"resolve", []stet.State{stet.Unknown}},
		{"purge", []stet.State{stet.Completed, stet.Retryable}},
		{"extend", []stet.State{stet.Completed}},
	} {
		for _, s := range []stet.State{stet.Running, stet.Completed, stet.Retryable, stet.Unknown} {
			bubble(t, stet.Config{}, func(h *house) {
				leave(h, s)
				before := h.record("k")
				want := false
				for _, ok := range c.ok {
					want = want || ok == s
				}
				err := verbs[c.verb](h)
				if want != (err == nil) || !want && !errors.Is(err, stet.ErrState) {
					h.t.Errorf("%s of a record that is %v: %v", c.verb, s, err)
				}
				if !want && h.record("k").Version != before.Version {
					h.t.Errorf("%s of a record that is %v was refused and changed it", c.verb, s)
				}
			})
		}
	}
}

func TestPublishedRecordsAreNotReinvented(t *testing.T) { // what was published stands
	bubble(t, stet.Config{}, func(h *house) {
		c := h.begin(request("k"), stet.Execute).Claim
		if err := c.Publish(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
		c.Unknown("truncated")
		h.settle(c)
		answer := result("another").Response
		for _, r := range []stet.Resolution{{}, {Response: &answer}} {
			if _, err := h.Operator().Resolve(h.t.Context(), request("k").ID, execution.Of(h.t.Context(), h.Engine, request("k").ID), r, note); !errors.Is(err, stet.ErrState) {
				h.t.Errorf("%+v: %v", r, err)
			}
		}
		if _, err := h.Operator().Resolve(h.t.Context(), request("k").ID, execution.Of(h.t.Context(), h.Engine, request("k").ID), stet.Resolution{Response: &answer, Kept: stet.KeptStatus}, note); err != nil {
			h.t.Fatal(err)
		}
		if d := h.begin(request("k"), stet.Replay); d.Record.Response != nil || d.Record.Status != answer.Status {
			h.t.Errorf("%+v", d.Record)
		}
	})
}

func TestPurgeFreesTheKey(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		leave(h, stet.Completed)
		if err := h.Operator().Purge(h.t.Context(), request("k").ID, 0, note); err != nil {
			h.t.Fatal(err)
		}
		if _, err := h.Get(h.t.Context(), request("k").ID); !errors.Is(err, stet.ErrNotFound) {
			h.t.Errorf("it is still there: %v", err)
		}
		h.begin(other("k"), stet.Execute)
	})
}

func TestExtendKeepsAResult(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		leave(h, stet.Completed)
		if _, err := h.Operator().Extend(h.t.Context(), request("k").ID, 0, 10*stet.DefaultRetain, note); err != nil {
			h.t.Fatal(err)
		}
		before := h.record("k")
		if _, err := h.Operator().Extend(h.t.Context(), request("k").ID, 0, 9*stet.DefaultRetain, note); !errors.Is(err, stet.ErrKeptLonger) ||
			h.record("k").Version != before.Version {
			h.t.Errorf("it was shortened: %v", err)
		}
		after(9 * stet.DefaultRetain)
		h.begin(request("k"), stet.Replay)
		if n, _, err := h.Operator().Reap(h.t.Context(), "", 1); n != 0 || err != nil {
			h.t.Errorf("%d reaped, %v", n, err)
		}
	})
}

func TestChangesNeedWhoWhyAndTheVersionDecidedOn(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		leave(h, stet.Unknown)
		id := request("k").ID
		for _, n := range []stet.Note{{}, {Who: "me"}, {Why: "so"}, {Who: "me", Why: " \t\n"}, {Who: " ", Why: "so"}} { // D10
			if _, err := h.Operator().Resolve(h.t.Context(), id, execution.Of(h.t.Context(), h.Engine, id), stet.Resolution{}, n); !errors.Is(err, stet.ErrNoReason) {
				h.t.Errorf("%+v: %v", n, err)
			}
		}
		seen := h.record("k").Version
		if got, err := h.Operator().Resolve(h.t.Context(), id, stet.Execution{Version: seen ^ 1}, stet.Resolution{}, note); !errors.Is(err, stet.ErrStale) || got.Version != seen {
			h.t.Errorf("%v, %v", got.Version, err)
		}
		if _, err := h.Operator().Resolve(h.t.Context(), id, stet.Execution{Version: seen}, stet.Resolution{}, note); err != nil {
			h.t.Error(err)
		}
		if _, err := h.Operator().Resolve(h.t.Context(), stet.ID{Scope: "s", Key: "absent"}, stet.Execution{Version: seen}, stet.Resolution{}, note); !errors.Is(err, stet.ErrNotFound) {
			h.t.Error(err)
		}
	})
}

func TestOneProbeAtATime(t *testing.T) { // I14: ten keepers make one probe
	bubble(t, stet.Config{}, func(h *house) {
		leave(h, stet.Unknown)
		heads, _, err := h.Operator().Unknowns(h.t.Context(), "", 10)
		if err != nil || len(heads) != 1 {
			h.t.Fatal(heads, err)
		}
		var won int
		for range 10 {
			got, ok, err := h.Operator().Probing(h.t.Context(), &heads[0], time.Minute, nil)
			if err != nil {
				h.t.Fatal(err)
			}
			if ok {
				won++
				if got.Probes != 1 {
					h.t.Errorf("%d probes", got.Probes)
				}
			}
		}
		if won != 1 {
			h.t.Errorf("%d keepers probe", won)
		}
		if heads, _, _ := h.Operator().Unknowns(h.t.Context(), "", 10); len(heads) != 0 {
			h.t.Error("it is due at once again")
		}
		after(time.Minute)
		heads, _, _ = h.Operator().Unknowns(h.t.Context(), "", 10)
		got, ok, err := h.Operator().Probing(h.t.Context(), &heads[0], 0, &note)
		if !ok || err != nil || !got.Escalated || !got.DueAt.IsZero() {
			h.t.Errorf("%+v, %v", got, err)
		}
		h.begin(request("k"), stet.Unresolved)
		if _, err := h.Operator().Resolve(h.t.Context(), request("k").ID, execution.Of(h.t.Context(), h.Engine, request("k").ID), stet.Resolution{}, note); err != nil || h.record("k").Escalated {
			h.t.Error("a dead letter was resolved, and is one", err)
		}
	})
}

// That nothing happened is believed only so long after the attempt ended as its request can be
// under way, or of a person who says that it is not; the history says so.
func TestReleaseWaitsUntilTheAttemptHasSettled(t *testing.T) { // D09
	const settle = 5 * time.Minute
	for name, leave := range map[string]func(t *testing.T, e *stet.Engine) stet.ID{
		"unknown": func(t *testing.T, e *stet.Engine) stet.ID {
			c := must(t, e, request("k"), stet.Execute).Claim
			after(10 * time.Second)
			c.Unknown("upstream-failed")
			if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
				t.Fatal(err)
			}
			return c.ID()
		},
		"a lapsed run": func(t *testing.T, e *stet.Engine) stet.ID {
			c := must(t, e, request("k"), stet.Execute).Claim
			after(stet.DefaultLease)
			must(t, e, request("k"), stet.Unresolved)
			return c.ID()
		},
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				id := leave(t, e)
				after(settle - time.Second)
				h, err := e.Operator().Resolve(t.Context(), id, execution.Of(t.Context(), e, id), stet.Resolution{Settle: settle}, nothingHappened)
				if r, _ := s.read(id); !errors.Is(err, stet.ErrNotSettled) || h.Version != r.Version || !h.Ended().Add(settle).Equal(h.AsOf.Add(time.Second)) {
					t.Fatalf("%v; it ended %v, and is read at %v", err, h.Ended(), h.AsOf)
				}
				now, err := e.Operator().Resolve(t.Context(), id, stet.Execution{Version: h.Version}, stet.Resolution{Settle: settle, Now: true}, nothingHappened)
				if err != nil || now.State != stet.Retryable || now.Note.Evidence != "4m59s after the attempt ended, before it had settled" {
					t.Errorf("%v %+v, %v", now.State, now.Note, err)
				}
			})
			shelved(t, stet.Config{}, func(t *testing.T, _ *fakeStore, e *stet.Engine) {
				id := leave(t, e)
				after(settle)
				h, err := e.Operator().Resolve(t.Context(), id, execution.Of(t.Context(), e, id), stet.Resolution{Settle: settle}, nothingHappened)
				if err != nil || h.State != stet.Retryable || h.Note.Evidence != "" {
					t.Errorf("%v %+v, %v", h.State, h.Note, err)
				}
			})
			shelved(t, stet.Config{}, func(t *testing.T, _ *fakeStore, e *stet.Engine) { // that it did happen needs no time
				id := leave(t, e)
				if _, err := e.Operator().Resolve(t.Context(), id, execution.Of(t.Context(), e, id), stet.Resolution{Settle: settle, Response: &stet.Response{Status: 201}}, note); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
