package stet

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/bounds"
)

// Whatever a caller hands over is looked at where it enters: no number that cannot be meant gets as
// far as a record.
func TestWhatCannotBeMeantIsRefused(t *testing.T) { // K12
	engine := func() *Engine { return claimIn(t, active).e }
	bounds.Refuses(t, configBounds, func() Config { return Config{} }, func(c Config) error {
		_, err := New(&oneRecord{}, c)
		return err
	})
	bounds.Refuses(t, policyBounds, func() Policy { return Policy{} }, func(p Policy) error {
		_, atNew := New(&oneRecord{}, Config{Policy: p})
		_, atBegin := engine().Begin(t.Context(), Request{ID: ID{"s", "k"}, Policy: &p})
		return each(p.Validate(), atNew, atBegin)
	})
	bounds.Refuses(t, requestBounds, func() Request { return Request{ID: ID{"s", "k"}} }, func(q Request) error {
		_, err := engine().Begin(t.Context(), q)
		return err
	})
	bounds.Refuses(t, outcomeBounds, func() Outcome { return created }, func(o Outcome) error {
		c := claimIn(t, active)
		err := c.Settle(t.Context(), o)
		if err != nil && (c.phase != active || c.Settle(t.Context(), created) != nil) {
			t.Errorf("after %v the claim is %v, and cannot be settled properly", err, c.phase)
		}
		return err
	})
	resolution := func() Resolution { return Resolution{Response: &Response{Status: 200}} }
	bounds.Refuses(t, resolutionBounds, resolution, func(r Resolution) error {
		_, err := engine().Operator().Resolve(t.Context(), ID{"s", "k"}, Execution{Fence: 1}, r, Note{Who: "ops", Why: "test"})
		return err
	})
	bounds.Refuses(t, lastProbeBounds, func() LastProbe { return LastProbe{Found: FoundHappened} }, func(p LastProbe) error {
		_, err := engine().Operator().Probed(t.Context(), &Head{ID: ID{"s", "k"}}, p, nil)
		return err
	})
	bounds.Refuses(t, queryBounds, func() Query { return Query{States: []State{Unknown}} }, func(q Query) error {
		o := engine().Operator()
		_, _, list := o.List(t.Context(), q)
		_, count := o.Count(t.Context(), q)
		return each(list, count)
	})
	bounds.Refuses(t, historyQueryBounds, func() HistoryQuery { return HistoryQuery{} }, func(q HistoryQuery) error {
		_, _, err := engine().Operator().History(t.Context(), q)
		return err
	})
	bounds.Refuses(t, recipeBounds, func() Recipe { return Recipe{} }, func(r Recipe) error {
		_, err := r.Compile()
		return err
	})
}

// each returns the first error of several doors, if all refuse.
func each(errs ...error) error {
	for _, err := range errs {
		if !errors.As(err, new(*bounds.Error)) {
			return nil
		}
	}
	return errs[0]
}

// A statement that nothing happened has no answer, and so no status.
func TestStatementsNeedNoStatus(t *testing.T) { // K12
	for _, state := range []func(*Claim){func(c *Claim) { c.NotExecuted("proof") }, func(c *Claim) { c.Unknown("doubt") }} {
		for status, taken := range map[int]bool{0: true, 503: true, 199: false, 1000: false} {
			c := claimIn(t, active)
			state(c)
			if err := c.Settle(t.Context(), Outcome{Response: Response{Status: status}}); (err == nil) != taken {
				t.Errorf("status %d: %v", status, err)
			}
		}
	}
}

// Durations that are arguments are looked at, too.
func TestDurationsOfVerbsHaveBounds(t *testing.T) { // K12
	id, n := ID{"s", "k"}, Note{Who: "ops", Why: "test"}
	for name, use := range map[string]func(o *Operator, d time.Duration) error{
		"retain": func(o *Operator, d time.Duration) error { _, err := o.Extend(t.Context(), id, 0, d, n); return err },
		"d":      func(o *Operator, d time.Duration) error { _, err := o.Snooze(t.Context(), id, 0, d, n); return err },
		"in": func(o *Operator, d time.Duration) error {
			_, _, err := o.Probing(t.Context(), &Head{}, d, nil)
			return err
		},
		"Wait": func(o *Operator, d time.Duration) error { _, err := o.e.Await(t.Context(), Decision{}, d); return err },
		"in ": func(_ *Operator, d time.Duration) error {
			return claimIn(t, active).Suspend(t.Context(), Step{Point: "p"}, d)
		},
	} {
		for _, d := range []time.Duration{math.MinInt64, -1, math.MaxInt64} {
			err := use(claimIn(t, active).e.Operator(), d)
			if !errors.As(err, new(*bounds.Error)) || !strings.Contains(err.Error(), strings.TrimSpace(name)+" is "+d.String()+"; it has to be from ") {
				t.Errorf("%s of %s: %v", name, d, err)
			}
		}
	}
	if _, err := claimIn(t, active).e.Operator().Extend(t.Context(), id, 0, 24, n); err == nil || !strings.Contains(err.Error(), "retain is 24ns") {
		t.Errorf("a retention without a unit: %v", err)
	}
}

// The longest lease, with the longest of all else that is added to it, is still an instant.
func TestTheLongestPolicyHasRoom(t *testing.T) { // K12
	e, err := New(&oneRecord{}, Config{Policy: Policy{Lease: bounds.Long, Rules: Rules{Retain: bounds.Long, OnLapse: LapseResume}}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Begin(t.Context(), Request{ID: ID{"s", "k"}})
	if err != nil || d.Verdict != Execute {
		t.Fatal(d.Verdict, err)
	}
	d.Claim.Overdue("late")
	if err := d.Claim.Settle(t.Context(), Outcome{}); err != nil {
		t.Fatal(err)
	}
	if h := d.Claim.Head(); !h.Ended().After(h.CreatedAt) || h.Ended().UnixNano() < 0 || h.Took < bounds.Long {
		t.Errorf("it ended at %s, %s after it began", h.Ended(), h.Took)
	}
}

func TestPolicySaysFieldValueAndBounds(t *testing.T) { // K12
	err := Policy{Rules: Rules{Retain: 24}}.Validate()
	const want = "stet: Policy.Retain is 24ns; it has to be from 1ms to 876000h0m0s, or 0 for the default"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
