package stet_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
)

func resumable(key string) stet.Request {
	q := request(key)
	q.Policy = &stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}
	q.Point, q.Keep = "first", []byte("state")
	return q
}

func TestReservationKeepsWhatResumingNeeds(t *testing.T) { // CR-14
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		first := must(t, e, resumable("k"), stet.Execute)
		if first.Claim.TookOver() || s.count("replace") != 0 {
			t.Error("the first run took over, or wrote twice")
		}
		if _, err := e.Operator().Resume(t.Context(), first.Claim.ID()); !errors.Is(err, stet.ErrState) {
			t.Errorf("resumed while it runs: %v", err)
		}
		after(stet.DefaultLease)
		if n, _, _ := e.Operator().Sweep(t.Context(), "", 0); n != 0 {
			t.Error("swept")
		}
		heads, _, err := e.Operator().Abandoned(t.Context(), stet.Query{})
		if err != nil || len(heads) != 1 {
			t.Fatal(heads, err)
		}
		d, err := e.Operator().Resume(t.Context(), heads[0].ID)
		if err != nil || !d.Claim.TookOver() || d.Claim.Attempt() != 2 || string(d.Claim.Stored().Request) != "state" {
			t.Fatalf("%+v, %v", d, err)
		}
		if h := d.Claim.Head(); h.Point != "first" || h.Rules.OnLapse != stet.LapseResume || h.Route != heads[0].Route {
			t.Errorf("%+v", h)
		}
		if _, err := e.Operator().Resume(t.Context(), heads[0].ID); !errors.Is(err, stet.ErrState) {
			t.Errorf("resumed twice: %v", err)
		}
		if err := first.Claim.Settle(t.Context(), result("late")); !errors.Is(err, stet.ErrFenced) { // I3
			t.Errorf("the first holder: %v", err)
		}
	})
}

func TestNewLifeKeepsWhatResumingNeeds(t *testing.T) {
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		_ = must(t, e, resumable("k"), stet.Execute).Claim.Settle(t.Context(), result("ok"))
		after(stet.DefaultRetain)
		c := must(t, e, resumable("k"), stet.Execute).Claim
		if r, _ := s.read(c.ID()); r.Point != "first" || string(r.Request) != "state" || c.TookOver() {
			t.Errorf("%q, %q", r.Point, r.Request)
		}
	})
}

func TestSuspended(t *testing.T) {
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, resumable("k"), stet.Execute).Claim
		held := c.Hold(t.Context(), nil)
		step := stet.Step{Point: "second", Progress: []byte("2"), DownstreamKey: "key", DownstreamID: "id"}
		if err := c.Suspend(t.Context(), step, time.Hour); err != nil || held.Err() == nil {
			t.Fatal(err, held.Err())
		}
		if err := c.Settle(t.Context(), result("ok")); !errors.Is(err, stet.ErrFenced) {
			t.Errorf("settled: %v", err)
		}
		after(time.Hour - time.Second)
		must(t, e, resumable("k"), stet.InProgress)
		after(30 * 24 * time.Hour) // never a new life
		d := must(t, e, resumable("k"), stet.Execute)
		if b := d.Claim.Stored(); string(b.Progress) != "2" || string(b.Request) != "state" || d.Record.DownstreamKey != "key" || d.Record.DownstreamID != "id" {
			t.Errorf("%+v", d.Record)
		}
		d.Claim.NotExecuted("proven")
		_ = d.Claim.Settle(t.Context(), stet.Outcome{})
		if must(t, e, resumable("k"), stet.Execute).Claim.TookOver() {
			t.Error("a run after a proof took over")
		}
	})
}

func TestSuspendWhatCannotBeResumed(t *testing.T) {
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		if err := c.Suspend(t.Context(), stet.Step{Point: "second"}, 0); !errors.Is(err, stet.ErrState) {
			t.Errorf("%v", err)
		}
		if err := c.Settle(t.Context(), result("ok")); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestResumeWithoutAnAnswer(t *testing.T) { // W2: the lost write is the proof
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		id := must(t, e, resumable("k"), stet.Execute).Claim.ID()
		after(stet.DefaultLease)
		s.after = func(verb string, n int) error {
			if verb == "replace" && n == 1 {
				return errLost
			}
			return nil
		}
		if d, err := e.Operator().Resume(t.Context(), id); err != nil || d.Claim.Attempt() != 2 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func TestReopen(t *testing.T) { // I14
	step := stet.Step{Point: "second", Progress: []byte("2"), DownstreamID: "ch_2"}
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		refused := func(id stet.ID, version stet.Version, s stet.Step, n stet.Note, want error) { // 0: as it is now
			t.Helper()
			of := stet.Execution{Version: version}
			if version == 0 {
				of = execution.Of(t.Context(), e, id)
			}
			if _, err := e.Operator().Reopen(t.Context(), id, of, s, n); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		c := must(t, e, resumable("k"), stet.Execute).Claim
		note := stet.Note{Who: "clerk", Why: "asked the provider"}
		refused(c.ID(), 0, step, note, stet.ErrState) // it runs
		c.Unknown("cannot-tell")
		_ = c.Settle(t.Context(), stet.Outcome{})
		have, _ := s.read(c.ID())
		refused(c.ID(), have.Version+2, step, note, stet.ErrStale)
		refused(c.ID(), 0, stet.Step{}, note, stet.ErrState)
		refused(c.ID(), 0, step, stet.Note{Who: "clerk"}, stet.ErrNoReason)

		h, err := e.Operator().Reopen(t.Context(), c.ID(), stet.Execution{Version: have.Version}, step, note)
		if err != nil || h.State != stet.Running || h.Cause != "" || h.Point != "second" || h.DownstreamID != "ch_2" {
			t.Fatalf("%+v, %v", h, err)
		}
		c.Completed()
		if err := c.Settle(t.Context(), result("late")); !errors.Is(err, stet.ErrFenced) { // I3
			t.Errorf("the holder who could not tell: %v", err)
		}
		d, err := e.Operator().Resume(t.Context(), c.ID())
		if err != nil || d.Claim.Attempt() != 2 || string(d.Claim.Stored().Progress) != "2" || string(d.Claim.Stored().Request) != "state" {
			t.Fatalf("%+v, %v", d, err)
		}
		_ = d.Claim.Settle(t.Context(), result("ok"))
		refused(c.ID(), 0, step, note, stet.ErrState)

		q := request("another") // nothing would resume it
		c = must(t, e, q, stet.Execute).Claim
		c.Unknown("cannot-tell")
		_ = c.Settle(t.Context(), stet.Outcome{})
		refused(c.ID(), 0, step, note, stet.ErrState)

		c = must(t, e, resumable("published"), stet.Execute).Claim
		_ = c.Publish(t.Context())
		c.Unknown("cannot-tell")
		_ = c.Settle(t.Context(), stet.Outcome{})
		refused(c.ID(), 0, step, note, stet.ErrState) // what was published stands
	})
}
