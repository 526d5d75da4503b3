package stet_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/store/memstore"
)

// A snooze and a hand-over outlast what loops and holders write to the record, and the first ends
// by itself.
func TestAttentionOutlastsOtherWrites(t *testing.T) {
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		q := request("k")
		q.Meta = map[string]string{"tenant": "eu"}
		c := must(t, e, q, stet.Execute).Claim
		c.Overdue("execution-timeout")
		if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
			t.Fatal(err)
		}
		o, id := e.Operator(), q.ID
		plan := func() stet.Head {
			r, _ := s.read(id)
			got, mine, err := o.Probing(t.Context(), &r.Head, time.Minute, nil)
			if err != nil || !mine {
				t.Fatal(mine, err)
			}
			return got
		}
		due := plan().DueAt
		note := stet.Note{Who: "ben", Why: "the bank looks"}
		if h, err := o.Snooze(t.Context(), id, 0, 30*time.Minute, note); err != nil || h.State != stet.Unknown || !h.DueAt.Equal(due) {
			t.Fatalf("%+v, %v; the probe was due at %s", h, err, due)
		}
		if h, err := o.Hand(t.Context(), id, 0, "ada", note); err != nil || !h.DueAt.Equal(due) || h.Note.Action != "hand" || h.Note.Evidence != "to ada" {
			t.Fatalf("%+v, %v", h, err)
		}
		until := time.Now().Add(30 * time.Minute)
		after(stet.DefaultLease + time.Second) // the holder says that its handler is at work; at no instant of a heartbeat
		plan()
		h := plan()
		z, snoozed := h.Snooze()
		if !snoozed || !z.Until.Equal(until) || z.Who != "ben" || z.Why != note.Why || !h.Attended() {
			t.Errorf("%+v, %v", z, h.Attended())
		}
		if to, ok := h.Handover(); !ok || to.To != "ada" || to.Who != "ben" || to.Why != note.Why || to.At.IsZero() {
			t.Errorf("%+v", to)
		}
		if h.Meta["tenant"] != "eu" || len(q.Meta) != 1 {
			t.Errorf("what belongs to the caller: %v, %v", h.Meta, q.Meta)
		}
		after(30 * time.Minute)
		if h := plan(); !h.Attended() {
			t.Error("the holder is not heard any more")
		} else if _, snoozed := h.Snooze(); snoozed {
			t.Error("a snooze does not end")
		}
		c.Returned(t.Context())
	})
}

// A holder that learns the outcome says so also where an operator has looked at the record
// meanwhile, and not where more has happened to it.
func TestAttentionTakesNothingFromTheHolder(t *testing.T) {
	for name, c := range map[string]struct {
		touch func(t *testing.T, e *stet.Engine, id stet.ID)
		want  stet.State
	}{
		"snoozed": {func(t *testing.T, e *stet.Engine, id stet.ID) {
			if _, err := e.Operator().Snooze(t.Context(), id, 0, time.Hour, note); err != nil {
				t.Fatal(err)
			}
		}, stet.Completed},
		"snoozed and woken": {func(t *testing.T, e *stet.Engine, id stet.ID) {
			for _, d := range []time.Duration{time.Hour, 0} {
				if _, err := e.Operator().Snooze(t.Context(), id, 0, d, note); err != nil {
					t.Fatal(err)
				}
			}
		}, stet.Completed},
		"handed over, twice": {func(t *testing.T, e *stet.Engine, id stet.ID) {
			for _, to := range []string{"ada", "ben"} {
				if _, err := e.Operator().Hand(t.Context(), id, 0, to, note); err != nil {
					t.Fatal(err)
				}
			}
		}, stet.Completed},
		"probed besides": {func(t *testing.T, e *stet.Engine, id stet.ID) {
			h, err := e.Operator().Hand(t.Context(), id, 0, "ada", note)
			if err != nil {
				t.Fatal(err)
			}
			if _, mine, err := e.Operator().Probing(t.Context(), &h, time.Minute, nil); err != nil || !mine {
				t.Fatal(mine, err)
			}
		}, stet.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				claim := overrun(t, e)
				c.touch(t, e, claim.ID())
				claim.Completed()
				err := claim.Settle(t.Context(), result("ok"))
				r, _ := s.read(claim.ID())
				if r.State != c.want || (err == nil) != (c.want == stet.Completed) || c.want == stet.Completed && r.Meta != nil {
					t.Errorf("%s, %v, %q", r.State, err, r.Meta)
				}
			})
		})
	}
}

// A snooze ends when nothing asks any more; one of a dead letter stays.
func TestDeadLettersWake(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		leave(h, stet.Unknown)
		o, id := h.Operator(), request("k").ID
		snooze := func() stet.Head {
			got, err := o.Snooze(h.t.Context(), id, 0, time.Hour, note)
			if err != nil {
				h.t.Fatal(err)
			}
			return got
		}
		seen := snooze()
		got, mine, err := o.Probing(h.t.Context(), &seen, stet.Never, &note)
		if _, snoozed := got.Snooze(); err != nil || !mine || snoozed {
			h.t.Errorf("snoozed %v, %v, %v", snoozed, mine, err)
		}
		got = snooze()
		if _, snoozed := got.Snooze(); !snoozed || !got.Escalated || !got.DueAt.IsZero() {
			h.t.Errorf("%+v", got)
		}
	})
}

// When a record became unknown stays the same, also where its handler is heard of later.
func TestUnknownSince(t *testing.T) {
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		overdue := overrun(t, e)
		lapsed, beaten := must(t, e, request("lapsed"), stet.Execute).Claim, must(t, e, request("beaten"), stet.Execute).Claim
		since := map[stet.ID]time.Time{overdue.ID(): time.Now()}
		after(stet.DefaultLease)
		if n, _, err := e.Operator().Sweep(t.Context(), "", 0); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		since[lapsed.ID()], since[beaten.ID()] = time.Now(), time.Now()
		beaten.Overdue("execution-timeout") // the sweeper was faster
		if err := beaten.Settle(t.Context(), stet.Outcome{}); !errors.Is(err, stet.ErrFenced) {
			t.Fatal(err)
		}
		same := func(when string) {
			t.Helper()
			for id, want := range since {
				if r, _ := s.read(id); !r.UnknownSince().Equal(want) {
					t.Errorf("%s, %s: unknown since %s, want %s", when, id.Key, r.UnknownSince(), want)
				}
			}
		}
		same("at first")
		after(10*stet.DefaultLease + time.Second) // at no instant of a heartbeat
		for _, c := range []*stet.Claim{overdue, beaten} {
			if r, _ := s.read(c.ID()); !r.Attended() {
				t.Errorf("%s is not attended", c.ID().Key)
			}
		}
		beaten.Returned(t.Context())
		r, _ := s.read(overdue.ID())
		if same("attended"); !r.Late().IsZero() {
			t.Errorf("late at %s", r.Late())
		}
		for _, c := range []*stet.Claim{lapsed} { // others have told of its lapse
			if _, err := e.Operator().Snooze(t.Context(), c.ID(), 0, time.Hour, note); err != nil {
				t.Fatal(err)
			}
			c.Completed()
			if err := c.Settle(t.Context(), result("late")); !errors.Is(err, stet.ErrFenced) {
				t.Fatal(err)
			}
			r, _ := s.read(c.ID())
			if !r.Late().Equal(time.Now()) || r.Status != 201 || r.Size != 4 {
				t.Errorf("late at %s, with %d and %d bytes", r.Late(), r.Status, r.Size)
			}
			if _, snoozed := r.Snooze(); snoozed {
				t.Error("a late answer wakes nobody")
			}
		}
		same("with a late answer")
	})
}

// What is said about who looks at a record ends when it leaves unknown, by whatever way.
func TestAttentionEndsWithTheDoubt(t *testing.T) {
	answer := result("found").Response
	for name, end := range map[string]func(t *testing.T, e *stet.Engine, c *stet.Claim) error{
		"resolved": func(t *testing.T, e *stet.Engine, c *stet.Claim) error {
			_, err := e.Operator().Resolve(t.Context(), c.ID(), execution.Of(t.Context(), e, c.ID()), stet.Resolution{Response: &answer}, note)
			return err
		},
		"released": func(t *testing.T, e *stet.Engine, c *stet.Claim) error {
			_, err := e.Operator().Resolve(t.Context(), c.ID(), execution.Of(t.Context(), e, c.ID()), stet.Resolution{Now: true}, note)
			return err
		},
		"reopened": func(t *testing.T, e *stet.Engine, c *stet.Claim) error {
			_, err := e.Operator().Reopen(t.Context(), c.ID(), execution.Of(t.Context(), e, c.ID()), stet.Step{Point: "p"}, note)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				q := request("k")
				q.Meta = map[string]string{"tenant": "eu"}
				c := must(t, e, q, stet.Execute).Claim
				c.Unknown("timeout")
				if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
					t.Fatal(err)
				}
				if _, err := e.Operator().Hand(t.Context(), c.ID(), 0, "ada", note); err != nil {
					t.Fatal(err)
				}
				if err := end(t, e, c); err != nil {
					t.Fatal(err)
				}
				if r, _ := s.read(c.ID()); !maps.Equal(r.Meta, q.Meta) {
					t.Errorf("%s: %q is left", r.State, r.Meta)
				}
			})
		})
	}
	t.Run("the holder learned the outcome", func(t *testing.T) {
		shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
			c := overrun(t, e)
			c.Completed()
			if err := c.Settle(t.Context(), result("ok")); err != nil {
				t.Fatal(err)
			}
			if r, _ := s.read(c.ID()); r.State != stet.Completed || r.Meta != nil {
				t.Errorf("%s: %q is left", r.State, r.Meta)
			}
		})
	})
}

func TestAttentionIsRefused(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		leave(h, stet.Completed)
		o, id := h.Operator(), request("k").ID
		if _, err := o.Snooze(h.t.Context(), id, 0, time.Hour, note); !errors.Is(err, stet.ErrState) {
			h.t.Errorf("a result was snoozed: %v", err)
		}
		if _, err := o.Hand(h.t.Context(), id, 0, "ada", note); !errors.Is(err, stet.ErrState) {
			h.t.Errorf("a result was handed over: %v", err)
		}
		lapsed := h.begin(request("lapsed"), stet.Execute).Claim.ID()
		if _, err := o.Snooze(h.t.Context(), lapsed, 0, time.Hour, note); !errors.Is(err, stet.ErrState) {
			h.t.Errorf("a run was snoozed: %v", err)
		}
		after(stet.DefaultLease)
		got, err := o.Snooze(h.t.Context(), lapsed, 0, time.Hour, note)
		if err != nil || got.State != stet.Unknown || got.Cause != "lease-lapsed" || got.Note == nil {
			h.t.Errorf("a run whose lease is over: %+v, %v", got, err)
		}
		if r := h.record("lapsed"); r.State != stet.Unknown {
			h.t.Errorf("it is %s", r.State)
		} else if _, snoozed := r.Snooze(); !snoozed {
			h.t.Error("it is not snoozed")
		}
		if _, err := o.Snooze(h.t.Context(), lapsed, got.Version^1, 0, note); !errors.Is(err, stet.ErrStale) {
			h.t.Errorf("of another version: %v", err)
		}
		for _, d := range []time.Duration{-1, stet.MaxSnooze + 1} {
			if _, err := o.Snooze(h.t.Context(), lapsed, 0, d, note); err == nil {
				h.t.Errorf("snoozed for %s", d)
			}
		}
		if _, err := o.Hand(h.t.Context(), lapsed, 0, " ", note); err == nil {
			h.t.Error("handed to no one")
		}
		got, err = o.Snooze(h.t.Context(), lapsed, 0, 0, note)
		if _, snoozed := got.Snooze(); err != nil || snoozed {
			h.t.Errorf("it was woken: %+v, %v", got, err)
		}
		changes, _, err := o.History(h.t.Context(), stet.HistoryQuery{ID: lapsed})
		if err != nil || len(changes) != 2 || changes[0].Action() != "wake" || changes[1].Action() != "snooze" || changes[1].Note.Who != note.Who {
			h.t.Errorf("%+v, %v", changes, err)
		}
	})
}

// What a store has returned is read-only.
func TestAttentionLeavesWhatWasRead(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		q := request("k")
		q.Meta = map[string]string{"tenant": "eu"}
		c := h.begin(q, stet.Execute).Claim
		c.Unknown("timeout")
		h.settle(c)
		before := h.record("k")
		if _, err := h.Operator().Hand(h.t.Context(), q.ID, 0, "ada", note); err != nil || len(before.Meta) != 1 {
			h.t.Errorf("%q, %v", before.Meta, err)
		}
	})
}

// What cannot be read says nothing, and is written over.
func TestAttentionThatIsDamaged(t *testing.T) {
	store := memstore.New(memstore.Config{})
	e, err := stet.New(store, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	q := request("k")
	q.Meta = map[string]string{" stet": "{}"}
	if d, err := e.Begin(t.Context(), q); err == nil {
		t.Fatalf("a caller says who looks at its record: %v", d.Verdict)
	}
	q.Meta = nil
	d, err := e.Begin(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	d.Claim.Unknown("timeout")
	if err := d.Claim.Settle(t.Context(), stet.Outcome{}); err != nil {
		t.Fatal(err)
	}
	r, err := e.Get(t.Context(), q.ID)
	if err != nil {
		t.Fatal(err)
	}
	was := r.Version
	r.Version, r.Meta = was+1, map[string]string{" stet": "{"}
	if _, err := store.Replace(t.Context(), was, r.Head, nil); err != nil {
		t.Fatal(err)
	}
	h, err := e.Operator().Snooze(t.Context(), q.ID, 0, time.Hour, note)
	if _, snoozed := h.Snooze(); err != nil || !snoozed || !h.UnknownSince().Equal(h.Ended()) {
		t.Errorf("%+v, %v", h, err)
	}
}

// What every list reads is bounded for every writer.
func TestWordsOfAttentionAreBounded(t *testing.T) {
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Begin(t.Context(), request("k"))
	if err != nil {
		t.Fatal(err)
	}
	d.Claim.Unknown("timeout")
	if err := d.Claim.Settle(t.Context(), stet.Outcome{}); err != nil {
		t.Fatal(err)
	}
	id, long, most := d.Claim.ID(), strings.Repeat("x", stet.MaxRemark+1), strings.Repeat("x", stet.MaxRemark)
	for name, do := range map[string]func() error{
		"who": func() error {
			_, err := e.Operator().Snooze(t.Context(), id, 0, time.Hour, stet.Note{Who: long, Why: "w"})
			return err
		},
		"why": func() error {
			_, err := e.Operator().Hand(t.Context(), id, 0, "ben", stet.Note{Who: "ann", Why: long})
			return err
		},
		"to": func() error {
			_, err := e.Operator().Hand(t.Context(), id, 0, long, stet.Note{Who: "ann", Why: "w"})
			return err
		},
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "at most 1000 bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if h, err := e.Operator().Snooze(t.Context(), id, 0, time.Hour, stet.Note{Who: most, Why: most}); err != nil {
		t.Errorf("%v, %v", h, err)
	}
}
