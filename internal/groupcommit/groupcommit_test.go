package groupcommit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errAnswered = errors.New("the server's error")
	errBusy     = errors.New("another transaction is in the way")
	errBroken   = errors.New("the connection broke")
)

// server is a driver with statements for one write and for many. What it was asked, and whether it
// waited for gate, is written down in order.
type server struct {
	gate  chan struct{}
	alone func(w *write) error                            // not nil: the answer to one write
	many  func(ctx context.Context, group []*write) error // not nil: the answer to a group
	held  Held[string]
	free  chan struct{} // not nil: Patient waits for it

	mu    sync.Mutex
	asked []string
}

func (s *server) log(what string, group ...*write) {
	var keys []string
	for _, w := range group {
		keys = append(keys, w.key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, what+" "+strings.Join(keys, ","))
}

func (s *server) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, "; ")
}

func (s *server) queue(lone, groups int) *Queue[*write] {
	return New(Config[*write]{
		Alone: func(w *write) error {
			s.log("alone", w)
			if s.gate != nil {
				<-s.gate
			}
			if s.alone != nil {
				return s.alone(w)
			}
			return nil
		},
		Many: func(ctx context.Context, group []*write) error {
			s.log("many", group...)
			if s.many != nil {
				return s.many(ctx, group)
			}
			for _, w := range group {
				w.Err = nil
			}
			return nil
		},
		Patient: func(w *write) error {
			s.log("patient", w)
			s.held.Add(w.key)
			if s.free == nil {
				return nil
			}
			select {
			case <-s.free:
				return nil
			case <-w.Ctx.Done():
				return Nothing(w.Ctx.Err())
			}
		},
		Settles: func(err error) Outcome {
			switch err {
			case errAnswered:
				return Refused
			case errBusy:
				return Contended
			}
			return Final
		},
		Fits:    func(w *write) bool { return !s.held.Has(w.key) },
		Compare: func(a, b *write) int { return cmp.Compare(a.key, b.key) },
		Lone:    lone, Groups: groups, MaxGroup: maxGroup, MaxBytes: maxBytes, Timeout: 30 * time.Second, Closed: errClosed})
}

// A lone caller takes the place of a group: while it is on its way others wait, and go together, in
// the order of their names.
func TestLoneCallerTakesAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{gate: make(chan struct{})}
		errs := line(s.queue(0, 2), "1", "2", "c", "a", "b")
		if got := s.String(); got != "alone 1; alone 2" {
			t.Errorf("while both places are taken: %s", got)
		}
		s.gate <- struct{}{}
		synctest.Wait()
		if got := s.String(); got != "alone 1; alone 2; many a,b,c" {
			t.Errorf("when one is free: %s", got)
		}
		close(s.gate)
		if err := errors.Join(errs()...); err != nil {
			t.Error(err)
		}
	})
}

// Beside a large group a small one does not begin: a place is left free until as many wait as are
// on their way.
func TestGroupsAreAsLargeAsThoseOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{gate: make(chan struct{})}
		hold := make(chan struct{})
		s.many = func(_ context.Context, group []*write) error {
			<-hold
			for _, w := range group {
				w.Err = nil
			}
			return nil
		}
		q := s.queue(0, 2)
		first := line(q, "1", "2", "a", "b", "c")
		s.gate <- struct{}{}
		synctest.Wait()
		s.gate <- struct{}{}
		synctest.Wait() // a group of three, and a free place
		second := line(q, "d", "e")
		if got := s.String(); got != "alone 1; alone 2; many a,b,c" {
			t.Errorf("two go beside a group of three: %s", got)
		}
		third := line(q, "f")
		if got := s.String(); got != "alone 1; alone 2; many a,b,c; many d,e,f" {
			t.Errorf("as many as are on their way: %s", got)
		}
		last := line(q, "g")
		hold <- struct{}{} // one group ends, and one is left
		synctest.Wait()
		if got := s.String(); !strings.HasSuffix(got, "; many d,e,f") {
			t.Errorf("one goes beside a group of three: %s", got)
		}
		hold <- struct{}{}
		synctest.Wait()
		if got := s.String(); !strings.HasSuffix(got, "; many g") {
			t.Errorf("nobody is left waiting: %s", got)
		}
		close(hold)
		if err := errors.Join(slices.Concat(first(), second(), third(), last())...); err != nil {
			t.Error(err)
		}
	})
}

// A group that gets no answer keeps its own place, but does not bar the other one: writes that wait
// begin there after a while, however few they are, and those that come later at once.
func TestSlowGroupIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{gate: make(chan struct{})}
		hold := make(chan struct{})
		s.many = func(_ context.Context, group []*write) error {
			if group[0].key == "a" {
				<-hold
			}
			for _, w := range group {
				w.Err = nil
			}
			return nil
		}
		q := s.queue(0, 2)
		first := line(q, "1", "2", "a", "b", "c")
		s.gate <- struct{}{}
		synctest.Wait()
		close(s.gate) // a group of three that hangs, and a free place
		synctest.Wait()
		for _, c := range []struct {
			key  string
			wait time.Duration
		}{{"d", slow}, {"e", 0}} {
			began := time.Now()
			if err := q.Do(to(t.Context(), c.key)); err != nil || time.Since(began) != c.wait {
				t.Errorf("%s: %v, after %s, want %s", c.key, err, time.Since(began), c.wait)
			}
		}
		if got := s.String(); got != "alone 1; alone 2; many a,b,c; many d; alone e" {
			t.Errorf("got %s", got)
		}
		close(hold)
		if err := errors.Join(first()...); err != nil {
			t.Error(err)
		}
		if q.Close(); q.busy != 0 {
			t.Errorf("%d writes are on their way in the end", q.busy)
		}
	})
}

// Lone callers go beside the groups, as long as few writes are on their way; the writes of a group
// count.
func TestFewWritesGoAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{gate: make(chan struct{})}
		hold := make(chan struct{})
		s.many = func(_ context.Context, group []*write) error {
			<-hold
			for _, w := range group {
				w.Err = nil
			}
			return nil
		}
		q := s.queue(2, 2)
		errs := line(q, "1", "2", "a", "b", "c", "d")
		if got := s.String(); got != "alone 1; alone 2; many a; many b" {
			t.Errorf("got %s", got)
		}
		s.gate <- struct{}{} // three are on their way, and two wait
		synctest.Wait()
		others := line(q, "e")
		if got := s.String(); got != "alone 1; alone 2; many a; many b" {
			t.Errorf("no group has ended: %s", got)
		}
		hold <- struct{}{}
		synctest.Wait()
		if got := s.String(); got != "alone 1; alone 2; many a; many b; many c,d,e" {
			t.Errorf("got %s", got)
		}
		close(hold)
		close(s.gate)
		if err := errors.Join(append(errs(), others()...)...); err != nil {
			t.Error(err)
		}
		if err := q.Do(to(t.Context(), "z")); err != nil || !strings.HasSuffix(s.String(), "; alone z") {
			t.Errorf("afterwards: %v; %s", err, s)
		}
	})
}

// What becomes of a group, and of a lone write, that the driver answers with an error.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		err         error
		lone, group string
		want        error
	}{
		{errBroken, "alone a", "many b,c", errBroken},                          // nothing is tried again
		{errAnswered, "alone a", "many b,c; patient b; patient c", nil},        // alone it turns out why
		{errBusy, "alone a; patient a", "many b,c; patient b; patient c", nil}, // it may wait alone
		{nil, "alone a", "many b,c; patient b; patient c", nil},                // the group said nothing about them
	} {
		t.Run(fmt.Sprint(c.err), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{}
				s.alone = func(*write) error { return c.err }
				err := s.queue(0, 1).Do(to(t.Context(), "a"))
				if c.err != errBusy && err != c.err || c.err == errBusy && err != nil || s.String() != c.lone {
					t.Errorf("a lone write: %v; %s", err, s)
				}
				s = &server{gate: make(chan struct{}), many: func(_ context.Context, group []*write) error {
					for _, w := range group {
						if w.key == "d" { // it has had its answer
							w.Err = errClosed
						}
					}
					return c.err
				}}
				errs := line(s.queue(0, 1), "a", "b", "c", "d")
				close(s.gate)
				got := errs()
				if got[1] != c.want || got[2] != c.want || got[3] != errClosed {
					t.Errorf("a group: %v", got)
				}
				asked := strings.Split(s.String(), "; ")
				slices.Sort(asked)
				if got := strings.Join(asked, "; "); got != strings.Replace("alone a; "+c.group, "many b,c", "many b,c,d", 1) {
					t.Errorf("a group: %s", got)
				}
			})
		})
	}
}

// A row that another transaction holds delays those who want it, and no neighbour: neither those
// who go alone nor those in groups.
func TestHeldRowDelaysNoNeighbour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{free: make(chan struct{})}
		s.alone = func(w *write) error {
			if w.key == "held" {
				time.Sleep(20 * time.Millisecond)
				return errBusy
			}
			time.Sleep(time.Millisecond)
			return nil
		}
		q := s.queue(0, 1)
		began := time.Now()
		patient := line(q, "held") // it is found out alone,
		time.Sleep(21 * time.Millisecond)
		for range 90 { // and known from then on, for a second
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			var wg sync.WaitGroup
			for _, key := range []string{"a", "held", "b", "c"} {
				wg.Go(func() {
					start := time.Now()
					err := q.Do(to(ctx, key))
					if took := time.Since(start); key != "held" && (err != nil || took > 2*time.Millisecond) {
						t.Errorf("a neighbour: %v, after %s", err, took)
					} else if key == "held" && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("the row itself: %v", err)
					}
				})
			}
			wg.Wait()
			cancel()
		}
		if strings.Contains(s.String(), ",held") || strings.Contains(s.String(), "held,") || time.Since(began) > 2*time.Second {
			t.Errorf("it was in a group, or took %s", time.Since(began))
		}
		close(s.free)
		if err := errors.Join(patient()...); err != nil {
			t.Error(err)
		}
	})
}

// A group has until the latest deadline of its writes: who has less leaves earlier, and is told
// that it may happen yet.
func TestGroupHasTheLatestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{gate: make(chan struct{})}
		s.many = func(ctx context.Context, group []*write) error {
			<-ctx.Done()
			return errBroken
		}
		q := s.queue(0, 1)
		first := line(q, "a")
		began := time.Now()
		var wg sync.WaitGroup
		for key, d := range map[string]time.Duration{"b": time.Second, "c": time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			wg.Go(func() {
				err := q.Do(to(ctx, key))
				if took := time.Since(began); took != d || key == "b" && (!errors.Is(err, errNoAnswer) || !errors.Is(err, context.DeadlineExceeded)) {
					t.Errorf("%s: %v, after %s", key, err, took)
				}
			})
		}
		synctest.Wait()
		close(s.gate)
		first()
		wg.Wait()
		synctest.Wait()
		s.gate = make(chan struct{}) // without a deadline it is the queue's
		first, began = line(q, "a"), time.Now()
		errs := line(q, "d")
		close(s.gate)
		first()
		if err := errs()[0]; err != errBroken || time.Since(began) != 30*time.Second {
			t.Errorf("%v, after %s", err, time.Since(began))
		}
	})
}

// A caller that is gone before its write is sent is left out, also if nothing told the queue.
func TestGoneCallersAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{gate: make(chan struct{})}
		q := s.queue(0, 1)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := q.Do(to(ended, "z")); !errors.Is(err, ErrNothing) || s.String() != "" {
			t.Errorf("one that came too late: %v, %s", err, s)
		}
		first := line(q, "a")
		silent := &silentEnd{Context: t.Context()}
		gone := make(chan error, 1)
		go func() { gone <- q.Do(to(silent, "silent")) }()
		synctest.Wait()
		others := line(q, "b")
		silent.err = context.DeadlineExceeded
		close(s.gate)
		if err := <-gone; !errors.Is(err, ErrNothing) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that is gone: %v", err)
		}
		if err := errors.Join(append(first(), others()...)...); err != nil {
			t.Error(err)
		}
		if got := s.String(); got != "alone a; many b" {
			t.Errorf("got %s", got)
		}
	})
}

// silentEnd is a context whose end is seen only by asking.
type silentEnd struct {
	context.Context
	err error
}

func (s *silentEnd) Err() error { return s.err }

// Close waits also for groups whose callers have left.
func TestCloseWaitsForAbandonedGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{gate: make(chan struct{})}
		hold := make(chan struct{})
		s.many = func(context.Context, []*write) error { <-hold; return errBroken }
		q := s.queue(0, 1)
		first := line(q, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		left := make(chan error, 1)
		go func() { left <- q.Do(to(ctx, "b")) }()
		synctest.Wait()
		close(s.gate)
		first()
		if err := <-left; !errors.Is(err, errNoAnswer) {
			t.Errorf("who left: %v", err)
		}
		closed := make(chan struct{})
		go func() { q.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while a group is on its way")
		default:
		}
		close(hold)
		<-closed
	})
}

func TestFirstOfEach(t *testing.T) {
	for in, want := range map[string]string{
		"": " ", "a": "a ", "abc": "abc ", "aabcc": "abc ac", "aaa": "a aa", "abbb": "ab bb",
	} {
		given := []byte(in)
		first, others := FirstOfEach(given, func(a, b byte) int { return cmp.Compare(a, b) })
		if got := string(first) + " " + string(others); got != want || string(given) != in {
			t.Errorf("%s: %s, want %s; it is %s now", in, got, want, given)
		}
	}
}

func TestHeldForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Held[int]
		if h.Has(0) {
			t.Error("empty, and it has something")
		}
		for i := range 2 * maxHeld {
			h.Add(i)
		}
		if !h.Has(0) || h.Has(maxHeld) || len(h.until) != maxHeld {
			t.Errorf("%d are remembered", len(h.until))
		}
		time.Sleep(heldFor + 1)
		if h.Add(maxHeld); !h.Has(maxHeld) || h.Has(0) || len(h.until) != 1 {
			t.Errorf("%d are remembered", len(h.until))
		}
	})
}
