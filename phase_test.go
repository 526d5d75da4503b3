package stet

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestCourse is the table of a claim's phases as sentences: every phase and every deed, so that
// what is not said here is refused.
func TestCourse(t *testing.T) { // A16, I3
	said := map[phase]map[deed]struct {
		to  phase
		why string
	}{
		active: {
			step:    {active, "a run that goes on renews its lease"},
			join:    {joined, "In makes it part of a transaction"},
			settle:  {ended, "its outcome stands"},
			doubt:   {doubted, "its holder may learn the outcome after all"},
			suspend: {ended, "another run goes on with it"},
			lose:    {ended, "the record is somebody else's, or may be"},
		},
		joined: {
			step:       {joined, "what it writes is part of the transaction"},
			settle:     {promised, "the outcome stands if the transaction does"},
			doubt:      {promised, "so does a doubt"},
			committed:  {active, "it goes on outside with what it wrote"},
			rolledBack: {active, "it goes on as it was before In"},
			lose:       {ended, "the record was taken over meanwhile"},
		},
		promised: {
			committed:  {ended, "the outcome stands"},
			rolledBack: {active, "nothing of it happened, and it may be settled otherwise"},
			lose:       {ended, "the record was taken over meanwhile"},
		},
		doubted: {
			settle: {ended, "the holder has learned the outcome"},
			doubt:  {doubted, "it still does not know"},
			lose:   {ended, "others have touched the record"},
		},
		ended: {},
	}
	for p := range phases {
		for d := range deeds {
			want, may := said[p][d]
			if p.allows(d) != may {
				t.Errorf("%v, deed %d: allowed %v, want %v", p, d, p.allows(d), may)
			}
			if may && p.allows(d) && p.after(d) != want.to {
				t.Errorf("%v, deed %d: leads to %v, want %v: %s", p, d, p.after(d), want.to, want.why)
			}
		}
	}
}

// TestClaimsKeepToTheCourse asks real claims in each phase for everything, and compares what they
// refuse with the table.
func TestClaimsKeepToTheCourse(t *testing.T) { // A16
	for p := range phases {
		for d, do := range map[deed]func(c *Claim) error{
			step:    func(c *Claim) error { return c.Renew(t.Context()) },
			join:    func(c *Claim) error { return c.In(nil) },
			settle:  func(c *Claim) error { c.Completed(); return c.Settle(t.Context(), created) },
			doubt:   func(c *Claim) error { c.Unknown("x"); return c.Settle(t.Context(), Outcome{}) },
			suspend: func(c *Claim) error { return c.Suspend(t.Context(), Step{Point: "p"}, 0) },
		} {
			c := claimIn(t, p)
			err := do(c)
			if refused := errors.Is(err, ErrFenced) || err != nil && (d == join || d == suspend); refused == p.allows(d) {
				t.Errorf("%v, deed %d: %v, and the table says %v", p, d, err, p.allows(d))
			}
			if want := p; err == nil {
				if want = p.after(d); c.phase != want {
					t.Errorf("%v, deed %d: it is %v, want %v", p, d, c.phase, want)
				}
			}
		}
	}
}

var created = Outcome{Response: Response{Status: 201}}

// claimIn returns a claim that got into its phase by its own methods.
func claimIn(t *testing.T, p phase) *Claim {
	t.Helper()
	e, err := New(&oneRecord{}, Config{Policy: Policy{Rules: Rules{OnLapse: LapseResume}}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Begin(t.Context(), Request{ID: ID{"s", "k"}, Point: "begun"})
	if err != nil {
		t.Fatal(err)
	}
	c := d.Claim
	switch p {
	case active, phases:
	case joined:
		err = c.In(nil)
	case promised:
		err = errors.Join(c.In(nil), c.Settle(t.Context(), created))
	case doubted:
		c.Unknown("x")
		err = c.Settle(t.Context(), Outcome{})
	case ended:
		err = c.Settle(t.Context(), created)
	}
	if err != nil || c.phase != p {
		t.Fatalf("%v: it is %v, %v", p, c.phase, err)
	}
	return c
}

// oneRecord is a store of one record that joins any transaction.
type oneRecord struct {
	Store
	r Record
}

func (s *oneRecord) Get(context.Context, ID) (Record, error) { return s.r, nil }

func (s *oneRecord) Bind(any) (Store, error) { return s, nil }

func (s *oneRecord) Create(_ context.Context, r Record) (Record, error) {
	s.r = r
	s.r.CreatedAt, s.r.UpdatedAt, s.r.AsOf, s.r.DueAt = time.Unix(1, 0), time.Unix(1, 0), time.Unix(1, 0), time.Unix(1e6, 0)
	return s.r, nil
}

func (s *oneRecord) Replace(_ context.Context, prev Version, h Head, _ *Body) (Head, error) {
	if prev != s.r.Version {
		return s.r.Head, ErrStale
	}
	s.r.Head = h
	return h, nil
}
