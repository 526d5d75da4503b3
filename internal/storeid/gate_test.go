package storeid

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
)

// site is where a store is.
type site struct {
	mu     sync.Mutex
	id     stet.Identity
	looks  int
	broken error
}

func (s *site) open(t *testing.T, file string) *Gate {
	t.Helper()
	g := &Gate{File: file,
		Look: func(context.Context) (stet.Identity, error) {
			time.Sleep(time.Millisecond)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.looks++
			return s.id, s.broken
		},
		Make: func(_ context.Context, was, next stet.Identity) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.id.ID == was.ID {
				s.id = next
			}
			return s.broken
		},
		Raise: func(_ context.Context, known stet.Identity, step string) (stet.Identity, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.id.ID == known.ID && s.id.Mark >= known.Mark && s.broken == nil {
				s.id.Mark++
				s.id.Trail = step + s.id.Trail[:min(len(s.id.Trail), TrailSize-stepSize)]
			}
			return s.id, s.broken
		}}
	if err := g.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func (s *site) set(id stet.Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id = id
}

func (s *site) now() stet.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// work writes by g for a while.
func work(t *testing.T, g *Gate, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := g.Write(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMarkRisesWhileItIsWritten(t *testing.T) { // S-I
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		a, b := s.open(t, ""), s.open(t, "")
		for range 50 {
			work(t, a, 100*time.Millisecond)
			work(t, b, 100*time.Millisecond)
		}
		if m := s.now().Mark; m < 5 || m > 20 {
			t.Errorf("after ten seconds of two writers the mark is %d", m)
		}
		was := s.now().Mark
		time.Sleep(time.Minute)
		if m := s.now().Mark; m != was {
			t.Errorf("without a writer it rose from %d to %d", was, m)
		}
		if s.looks > 40 {
			t.Errorf("%d looks in ten seconds", s.looks)
		}
	})
}

// What was set back by less than the others have raised it since is noticed by the trail.
func TestASetBackStoreThatGoesOn(t *testing.T) { // S-I
	for name, further := range map[string]int64{"to the same mark": 0, "further": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &site{}
				a := s.open(t, "")
				work(t, a, 3*time.Second)
				synctest.Wait()
				backup := s.now()
				b := s.open(t, "") // has seen no more than the backup has
				work(t, a, 1500*time.Millisecond)
				synctest.Wait()
				known := a.Sight().Known.Mark
				if known <= backup.Mark {
					t.Fatalf("mark %d after %d", known, backup.Mark)
				}
				s.set(backup)
				for s.now().Mark < known+further {
					work(t, b, 100*time.Millisecond)
					synctest.Wait()
				}
				time.Sleep(Every)
				if err := a.Write(t.Context()); !errors.Is(err, stet.ErrForeign) {
					t.Errorf("at mark %d, after %d: %v", s.now().Mark, a.Sight().Known.Mark, err)
				}
			})
		})
	}
}

func TestARaiseDoesNotHideThatTheStoreWasSetBack(t *testing.T) { // S-I
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		a := s.open(t, "")
		work(t, a, 3*time.Second)
		synctest.Wait()
		backup := s.now()
		backup.Mark--
		s.set(backup)
		a.mu.Lock()
		a.rose = time.Time{}
		a.raiseSoon()
		a.mu.Unlock()
		synctest.Wait()
		if err := a.Write(t.Context()); !errors.Is(err, stet.ErrForeign) || s.now().Mark != backup.Mark {
			t.Errorf("at mark %d: %v", s.now().Mark, err)
		}
	})
}

// A look that took long finds a mark that others have raised meanwhile, and is no proof against it.
func TestALookIsComparedWithWhatWasKnownWhenItBegan(t *testing.T) {
	s := &site{}
	g := s.open(t, "")
	early, was := g.Sight(), s.now()
	now := was
	now.Mark, now.Trail = was.Mark+1, Step()
	s.set(now)
	if err := g.Sight().Saw(now); err != nil {
		t.Fatal(err)
	}
	if err := early.Saw(was); err != nil || g.Sight().Known.Mark != now.Mark {
		t.Errorf("%v, known is %+v", err, g.Sight().Known)
	}
	if err := g.Write(t.Context()); err != nil {
		t.Error(err)
	}
}

// A look or a raise that is on its way does not undo what is expected meanwhile.
func TestALookDoesNotUndoAPin(t *testing.T) {
	s := &site{}
	g := s.open(t, "")
	early := g.Sight()
	g.Know(stet.Identity{ID: "st_other"})
	_ = early.Saw(s.now())
	if err := g.Write(t.Context()); !errors.Is(err, stet.ErrForeign) || g.Sight().Known.ID != "st_other" {
		t.Errorf("known is %+v, %v", g.Sight().Known, err)
	}
}

func TestManyWritesWaitForOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		g := s.open(t, "")
		time.Sleep(time.Minute)
		s.set(stet.Identity{ID: "st_other"})
		looks := s.looks
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := g.Write(t.Context()); !errors.Is(err, stet.ErrForeign) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := s.looks - looks; n != 1 {
			t.Errorf("%d looks", n)
		}
	})
}

// A store that cannot be looked at is not written to; one that was away for a while goes on.
func TestALookThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		g := s.open(t, "")
		was := s.now()
		time.Sleep(2 * Every)
		s.broken = errors.New("no route")
		if err := g.Write(t.Context()); err == nil || errors.Is(err, stet.ErrForeign) {
			t.Error(err)
		}
		s.broken = nil
		if err := g.Write(t.Context()); err != nil {
			t.Error(err)
		}
		s.set(stet.Identity{ID: "st_other"})
		time.Sleep(2 * Every)
		if err := g.Write(t.Context()); !errors.Is(err, stet.ErrForeign) {
			t.Error(err)
		}
		s.set(was)
		time.Sleep(2 * Every)
		for range 2 { // looked at, and fresh
			if err := g.Write(t.Context()); err != nil {
				t.Errorf("the store is back: %v", err)
			}
		}
	})
}

func TestFileRemembers(t *testing.T) { // S04, S06
	file := filepath.Join(t.TempDir(), "seen")
	s := &site{}
	g := s.open(t, file)
	g.rose = time.Time{}
	if err := g.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.Close()
	was := s.now()
	if was.Mark != 1 {
		t.Fatalf("mark %d", was.Mark)
	}
	foreign := func(when string, want bool) *Gate {
		t.Helper()
		again := s.open(t, file)
		if err := again.Write(t.Context()); errors.Is(err, stet.ErrForeign) != want {
			t.Errorf("%s: %v", when, err)
		}
		return again
	}
	foreign("the same", false)
	lower := was
	lower.Mark = 0
	s.set(lower)
	foreign("set back", true)
	forked := was
	forked.Trail = Step()
	s.set(forked)
	foreign("set back, and gone on", true)
	s.set(stet.Identity{ID: "st_other", Mark: 100})
	foreign("another", true)
	s.set(stet.Identity{})
	gone := foreign("emptied", true)
	if s.now().ID != "" {
		t.Error("a store that is not the one that was here was made a new one")
	}
	if _, err := gone.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	foreign("accepted", false)
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := &Gate{File: file, Look: g.Look}
	if err := broken.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "remove that file") {
		t.Errorf("a file that says nothing: %v", err)
	}
}

func TestAcceptIsOfWhatWasSeen(t *testing.T) {
	s := &site{}
	g := s.open(t, "")
	g.Make = func(context.Context, stet.Identity, stet.Identity) error { return nil } // another process was faster
	if _, err := g.Accept(t.Context()); !errors.Is(err, stet.ErrForeign) {
		t.Error(err)
	}
}
