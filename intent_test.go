package stet_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// delayed keeps the writes that the test holds back, so that copies of them arrive when it says so.
type delayed struct {
	*fakeStore
	hold   bool // guarded by the fakeStore's lock, like copies
	copies []func() error
}

// held keeps a copy of a write, if writes are held back.
func (d *delayed) held(again func() error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hold {
		d.copies = append(d.copies, again)
	}
	return d.hold
}

// kept returns the copies so far.
func (d *delayed) kept() []func() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copies
}

func (d *delayed) holds(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold = on
}

func (d *delayed) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	if d.held(func() error { _, err := d.fakeStore.Create(context.Background(), r); return err }) {
		return stet.Record{}, errLost
	}
	return d.fakeStore.Create(ctx, r)
}

func (d *delayed) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	if d.held(func() error { _, err := d.fakeStore.Replace(context.Background(), prev, h, b); return err }) {
		return stet.Head{}, errLost
	}
	return d.fakeStore.Replace(ctx, prev, h, b)
}

// TestACopyOfAWriteThatWasGivenUpHasNoEffect: whatever a request sent and gave up meets what stands
// in its place when it arrives.
func TestACopyOfAWriteThatWasGivenUpHasNoEffect(t *testing.T) { // A14, W2, I11
	for name, c := range map[string]struct {
		leave  func(t *testing.T, e *stet.Engine) // before the request
		landed bool                               // the first copy arrives before the request gives up
		state  stet.State                         // afterwards
	}{
		"a Create that had not landed": {func(*testing.T, *stet.Engine) {}, false, stet.Retryable},
		"a Create that had":            {func(*testing.T, *stet.Engine) {}, true, stet.Retryable},
		"a Take that had not landed":   {freed, false, stet.Retryable},
		"a Take that had":              {freed, true, stet.Retryable},
		"a Restart that had not":       {finished, false, stet.Retryable},
		"a Restart that had":           {finished, true, stet.Retryable},
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, _ *stet.Engine) {
				d := &delayed{fakeStore: s}
				e, err := stet.New(d, stet.Config{})
				if err != nil {
					t.Fatal(err)
				}
				c.leave(t, e)
				if _, is := s.read(request("k").ID); is { // only what takes over is delayed
					d.holdReplaces(t, e)
				} else {
					d.holds(true)
					if _, err := e.Begin(t.Context(), request("k")); !errors.Is(err, stet.ErrUnsettled) {
						t.Fatal(err)
					}
				}
				if c.landed {
					if err := d.kept()[0](); err != nil {
						t.Fatal(err)
					}
				}
				d.holds(false)
				if err := e.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				for i, again := range d.kept() {
					if err := again(); err == nil {
						t.Errorf("copy %d took effect", i)
					}
				}
				r, there := s.read(request("k").ID)
				if !there || r.State != c.state {
					t.Errorf("left is %v, want %v", r.State, c.state)
				}
				must(t, e, request("k"), stet.Execute)
			})
		})
	}
}

// holdReplaces has a request give up behind a store that answers reads and refusals, and loses
// writes of what is there.
func (d *delayed) holdReplaces(t *testing.T, e *stet.Engine) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.mu.Lock()
	d.before = func(verb string, _ int) error {
		if verb == "create" { // the incumbent is shown, and the next write is lost
			d.holds(true)
		}
		return nil
	}
	d.mu.Unlock()
	_, err := e.Begin(ctx, request("k"))
	if !errors.Is(err, stet.ErrUnsettled) {
		t.Fatal(err)
	}
	d.mend()
}

func freed(t *testing.T, e *stet.Engine) {
	t.Helper()
	c := must(t, e, request("k"), stet.Execute).Claim
	c.NotExecuted("declined")
	if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
		t.Fatal(err)
	}
}

func finished(t *testing.T, e *stet.Engine) {
	t.Helper()
	if err := must(t, e, request("k"), stet.Execute).Claim.Settle(t.Context(), result("ok")); err != nil {
		t.Fatal(err)
	}
	after(stet.DefaultRetain)
}

func TestATombstoneIsReapedAndRefusesNobody(t *testing.T) { // A14
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		s.after = func(verb string, _ int) error { return map[string]error{"create": errLost}[verb] }
		if _, err := e.Begin(t.Context(), request("k")); err == nil {
			t.Fatal("it was told what was lost")
		}
		s.mend()
		_ = e.Drain(t.Context())
		if r, _ := s.read(request("k").ID); r.State != stet.Retryable || r.Cause != stet.CauseGivenUp {
			t.Fatalf("left is %v", r.State)
		}
		c := must(t, e, other("k"), stet.Execute).Claim // also another payload: nothing was promised to the first
		if c.Attempt() != 1 {
			t.Errorf("attempt %d", c.Attempt())
		}
		s.after = func(verb string, _ int) error { return map[string]error{"create": errLost}[verb] }
		if _, err := e.Begin(t.Context(), request("l")); err == nil {
			t.Fatal("it was told what was lost")
		}
		s.mend()
		_ = e.Drain(t.Context())
		if n, _, err := e.Operator().Reap(t.Context(), "", 0); n != 1 || err != nil {
			t.Errorf("%d reaped, %v", n, err)
		}
	})
}

func TestARolledBackReservationIsMadeAgain(t *testing.T) { // A15, W4
	for name, fault := range map[string]func(l ledger){
		"at once": func(ledger) {},
		"and the answer is lost": func(l ledger) {
			l.after = func(verb string, n int) error {
				if verb == "create" && n == 1 {
					return errLost
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, _ func() int) {
				tx := l.begin()
				q := resumable("k")
				q.Keep = []byte("the request")
				d, err := e.BeginIn(t.Context(), tx, q)
				if err != nil || d.Claim == nil {
					t.Fatal(err)
				}
				fault(l)
				if err := d.Claim.Confirm(t.Context(), errors.New("deadlock")); !errors.Is(err, stet.ErrRolledBack) {
					t.Fatalf("Confirm: %v", err)
				}
				r, there := l.read(q.ID)
				if !there || string(r.Request) != "the request" || r.Point != q.Point || r.Version != d.Claim.Head().Version {
					t.Errorf("there %v, request %q, point %q", there, r.Request, r.Point)
				}
				if string(d.Claim.Stored().Request) != "the request" {
					t.Errorf("the holder has %q", d.Claim.Stored().Request)
				}
				if err := d.Claim.Settle(t.Context(), result("ok")); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A record that was there is the request's again, too, when its transaction was rolled back.
func TestARolledBackTakeIsMadeAgain(t *testing.T) { // A15
	ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, _ func() int) {
		freed(t, e)
		d, err := e.BeginIn(t.Context(), l.begin(), request("k"))
		if err != nil || d.Claim == nil || d.Claim.Attempt() != 2 {
			t.Fatal(d.Verdict, err)
		}
		if err := d.Claim.Confirm(t.Context(), errors.New("deadlock")); !errors.Is(err, stet.ErrRolledBack) {
			t.Fatalf("Confirm: %v", err)
		}
		if err := d.Claim.Settle(t.Context(), result("ok")); err != nil || d.Claim.Attempt() != 2 {
			t.Error(d.Claim.Attempt(), err)
		}
	})
}

// A reservation whose transaction may or may not have committed is not left behind.
func TestAnUnsettledReservationIsTakenBack(t *testing.T) { // A15, A14
	ledgered(t, func(t *testing.T, l ledger, e *stet.Engine, _ func() int) {
		d, err := e.BeginIn(t.Context(), l.begin(), request("k"))
		if err != nil {
			t.Fatal(err)
		}
		l.after = func(string, int) error { return errLost }
		if err := d.Claim.Confirm(t.Context(), errLostCommit); !errors.Is(err, stet.ErrUnsettled) {
			t.Fatalf("Confirm: %v", err)
		}
		l.mend()
		_ = e.Drain(t.Context())
		if r, _ := l.read(request("k").ID); r.State != stet.Retryable || r.Cause != stet.CauseGivenUp {
			t.Errorf("left is %v", r.State)
		}
	})
}

type panics struct{}

func (*panics) UnmarshalJSON([]byte) error { return nil }

func (panics) MarshalJSON() ([]byte, error) { panic("no JSON of this") }

func TestAResultThatPanicsLeavesNoClaimHeld(t *testing.T) { // A17, W13
	var _ json.Marshaler = panics{}
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not go on")
				}
			}()
			_, _ = stet.Do(t.Context(), e, request("k"), func(context.Context, *stet.Claim) (panics, error) { return panics{}, nil })
		}()
		r, _ := s.read(request("k").ID)
		if r.State != stet.Unknown || r.Cause != "panic" {
			t.Errorf("it is %v, %q", r.State, r.Cause)
		}
		writes := s.count("replace")
		after(10 * time.Minute)
		if s.count("replace") != writes {
			t.Error("its heartbeat goes on")
		}
	})
}
