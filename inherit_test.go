package stet_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// heir is a store that tells what was left in it.
type heir struct {
	*fakeStore
	left []stet.Head
}

func (h *heir) Left() []stet.Head { return h.left }

// restarted returns an engine on the same store in the place of a process that was killed, with
// what it has left.
func restarted(t *testing.T, s *fakeStore, left ...*stet.Claim) *stet.Engine {
	t.Helper()
	h := &heir{fakeStore: s}
	for _, c := range left {
		h.left = append(h.left, c.Head())
	}
	e, err := stet.New(h, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func inherit(t *testing.T, e *stet.Engine, want int) {
	t.Helper()
	if n, err := e.Operator().Inherit(t.Context()); err != nil || n != want {
		t.Errorf("%d were ended, %v; want %d", n, err, want)
	}
}

// The outcome of a run whose holder is proven to be gone is known to be unknown at once. That
// nothing happened is proven no earlier than it would have been without that.
func TestRunsOfAHolderThatIsGone(t *testing.T) { // R07
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, killed *stet.Engine) {
		c := must(t, killed, request("k"), stet.Execute).Claim
		time.Sleep(10 * time.Second)
		e := restarted(t, s, c)
		waiting := must(t, e, request("k"), stet.InProgress)
		told := make(chan stet.Decision, 1)
		go func() {
			d, _ := e.Await(t.Context(), waiting, time.Hour)
			told <- d
		}()
		after(time.Second)
		began := time.Now()
		inherit(t, e, 1)
		if d := <-told; d.Verdict != stet.Unresolved || time.Since(began) > 100*time.Millisecond {
			t.Errorf("who waited is told %v after %v", d.Verdict, time.Since(began))
		}
		d := must(t, e, request("k"), stet.Unresolved)
		if h := &d.Record.Head; h.Cause != stet.CauseHolderGone || !h.Attended() || h.Ended() != h.CreatedAt.Add(time.Minute) {
			t.Errorf("cause %q, its execution counts until %v after it began", h.Cause, h.Ended().Sub(h.CreatedAt))
		}
		if since := d.Record.UnknownSince(); since.After(began) || began.Sub(since) > time.Second {
			t.Errorf("it is said to be unknown since %v from now", since.Sub(began))
		}
		release := func() error {
			_, err := e.Operator().Resolve(t.Context(), c.ID(), d.Record.Execution(), stet.Resolution{}, stet.Note{Who: "w", Why: "y"})
			return err
		}
		if err := release(); !errors.Is(err, stet.ErrAttended) {
			t.Errorf("within what its lease was: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if err := release(); err != nil {
			t.Errorf("after it: %v", err)
		}
		inherit(t, e, 0)
	})
}

// What anybody has written since is not touched: the versions that were left are the only names of
// what is ended.
func TestRunsOfThisProcessAreNotInherited(t *testing.T) { // R07
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, killed *stet.Engine) {
		settled := must(t, killed, request("settled"), stet.Execute).Claim
		taken := must(t, killed, request("taken"), stet.Execute).Claim
		deleted := must(t, killed, request("deleted"), stet.Execute).Claim
		e := restarted(t, s, settled, taken, deleted)
		if err := settled.Settle(t.Context(), result("ok")); err != nil {
			t.Fatal(err)
		}
		s.change(taken.ID(), func(r *stet.Record) { r.Version++ })
		if err := s.Delete(t.Context(), deleted.ID(), deleted.Head().Version); err != nil {
			t.Fatal(err)
		}
		inherit(t, e, 0)
		must(t, e, request("settled"), stet.Replay)
		must(t, e, request("taken"), stet.InProgress)
	})
}

// A run that may be continued or executed again waits for the end of its lease, as before; of one
// in a transaction nothing has happened.
func TestInheritedRunsFollowTheirOwnRules(t *testing.T) { // R07
	for rule, want := range map[stet.LapseRule]stet.State{
		stet.LapseReexecute: stet.Running, stet.LapseResume: stet.Running, stet.LapseAtomic: stet.Retryable, stet.LapseUnknown: stet.Unknown,
	} {
		shelved(t, stet.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: rule}}}, func(t *testing.T, s *fakeStore, killed *stet.Engine) {
			q := request("k")
			q.Point = "p"
			c := must(t, killed, q, stet.Execute).Claim
			e := restarted(t, s, c)
			n, err := e.Operator().Inherit(t.Context())
			if r, _ := s.read(c.ID()); err != nil || r.State != want || (n == 1) != (want != stet.Running) {
				t.Errorf("%v: %v, %d were ended, %v", rule, r.State, n, err)
			}
		})
	}
}

// What a store that fails has kept from its end is ended by the sweeper, once.
func TestTheSweeperInherits(t *testing.T) { // R07
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, killed *stet.Engine) {
		a, b := must(t, killed, request("a"), stet.Execute).Claim, must(t, killed, request("b"), stet.Execute).Claim
		e := restarted(t, s, a, b)
		s.before = func(verb string, n int) error {
			if verb == "get" {
				return errLost
			}
			return nil
		}
		if n, err := e.Operator().Inherit(t.Context()); n != 0 || !errors.Is(err, errLost) {
			t.Errorf("%d, %v", n, err)
		}
		s.before = nil
		if n, _, err := e.Operator().Sweep(t.Context(), "", 0); n != 2 || err != nil {
			t.Errorf("the sweeper ended %d, %v", n, err)
		}
		if n, _, err := e.Operator().Sweep(t.Context(), "", 0); n != 0 || err != nil {
			t.Errorf("again %d, %v", n, err)
		}
	})
}
