//go:build unix

package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// say adds an entry about a scope.
func (h *house) say(scope stet.Scope, why string) {
	h.t.Helper()
	if err := h.Append(h.t.Context(), stet.Change{ID: stet.ID{Scope: scope, Key: "k"}, Note: stet.Note{Who: "ops", Why: why}}); err != nil {
		h.t.Fatal(err)
	}
}

// Whatever fails while the history is put into another file, it is the old one or the new one, and
// what is added afterwards is there.
func TestShortenedHistoryIsWholeOrAsItWas(t *testing.T) { // S15, N10
	before := []string{"third", "second", "first"}
	for name, c := range map[string]struct {
		act   func(ctx context.Context, s *Store) (int, error)
		after []string
	}{
		"trim":  {func(ctx context.Context, s *Store) (int, error) { return s.Trim(ctx, 0, 2) }, []string{"third"}},
		"erase": {func(ctx context.Context, s *Store) (int, error) { return s.Erase(ctx, stet.HistoryQuery{Scope: "b"}) }, []string{"third", stet.WhyErased, "first"}},
	} {
		steps := 0
		for step := 1; ; step++ {
			h := newHouse(t)
			h.say("a", "first")
			h.say("b", "second")
			h.say("c", "third")
			n, reached := 0, ""
			h.fsync = func(f *os.File) error {
				if n++; n >= step {
					reached = f.Name()
					return syscall.EIO
				}
				return f.Sync()
			}
			done, err := c.act(t.Context(), h.Store)
			if reached == "" {
				if err != nil || done == 0 || !slices.Equal(h.whys(stet.HistoryQuery{}), c.after) {
					t.Errorf("%s: %d, %v", name, done, err)
				}
				break
			}
			steps++
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s, step %d (%s): acknowledged: %v", name, step, reached, err)
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			h.Store = h.open(time.Now)
			whys := h.whys(stet.HistoryQuery{})
			if !slices.Equal(whys, before) && !slices.Equal(whys, c.after) {
				t.Errorf("%s, step %d (%s): the history is %v", name, step, reached, whys)
			}
			h.say("d", "later")
			if got := h.whys(stet.HistoryQuery{Limit: 2}); !slices.Equal(got, append([]string{"later"}, whys...)) {
				t.Errorf("%s, step %d (%s): then it is %v", name, step, reached, got)
			}
		}
		if steps < 2 {
			t.Errorf("%s: only %d steps failed", name, steps)
		}
	}
}

// Entries that other processes add while the history moves from file to file are in it.
func TestHistoryMovesBetweenProcesses(t *testing.T) { // S15, N10
	h := newHouse(t)
	const processes, entries = 3, 30
	var adding, moving sync.WaitGroup
	var over atomic.Bool
	for p := range processes {
		other := &house{t: t, dir: h.dir}
		other.Store = other.open(time.Now)
		adding.Go(func() {
			for i := range entries {
				other.say("stays", fmt.Sprint(p, " ", i))
				other.say("subject", "names")
			}
		})
	}
	mover := &house{t: t, dir: h.dir}
	mover.Store = mover.open(time.Now)
	moved := 0
	moving.Go(func() {
		for !over.Load() {
			n, err := mover.Erase(t.Context(), stet.HistoryQuery{Scope: "subject", Limit: 2})
			if err != nil {
				t.Errorf("Erase: %v", err)
				return
			}
			if moved += n; n == 0 {
				if _, _, err := mover.History(t.Context(), stet.HistoryQuery{Limit: 5}); err != nil {
					t.Errorf("History: %v", err)
				}
			}
		}
	})
	adding.Wait()
	over.Store(true)
	moving.Wait()
	if _, err := h.Erase(t.Context(), stet.HistoryQuery{Scope: "subject", Limit: stet.MaxLimit}); err != nil || moved == 0 {
		t.Fatalf("%d were erased meanwhile, %v", moved, err)
	}
	whys := h.whys(stet.HistoryQuery{Limit: 7})
	erased := 0
	seen := slices.DeleteFunc(whys, func(why string) bool {
		if why == stet.WhyErased {
			erased++
		}
		return why == stet.WhyErased
	})
	if slices.Sort(seen); len(slices.Compact(seen)) != processes*entries || erased != processes*entries {
		t.Errorf("%d entries stay and %d are erased, want %d of each", len(seen), erased, processes*entries)
	}
	b, err := os.ReadFile(filepath.Join(h.dir, auditFile))
	if err != nil || strings.Contains(string(b), "subject") || strings.Contains(string(b), "names") {
		t.Errorf("the file still has what was erased (%v)", err)
	}
}

// A process that dies between the new file's name and the sync of that name leaves the sync to the
// next one that adds an entry.
func TestNameOfAMovedHistoryIsSynced(t *testing.T) { // S15
	h := newHouse(t)
	h.say("a", "first")
	h.say("a", "second")
	other := &house{t: t, dir: h.dir}
	other.Store = other.open(time.Now)
	other.fsync = func(f *os.File) error { // as if it died there
		if f.Name() == h.dir || filepath.Base(f.Name()) == "." {
			return syscall.EIO
		}
		return f.Sync()
	}
	if n, err := other.Trim(t.Context(), 0, 1); err == nil {
		t.Fatalf("Trim: %d, acknowledged", n)
	}
	var synced []string
	h.fsync = func(f *os.File) error { synced = append(synced, filepath.Base(f.Name())); return f.Sync() }
	h.say("a", "third")
	if len(synced) != 2 || synced[1] != auditFile {
		t.Errorf("synced: %q; want the directory, and then %s", synced, auditFile)
	}
	synced = nil
	h.say("a", "fourth")
	if !slices.Equal(synced, []string{auditFile}) {
		t.Errorf("synced for the next: %q", synced)
	}
	if whys := h.whys(stet.HistoryQuery{}); !slices.Equal(whys, []string{"fourth", "third", "second"}) {
		t.Errorf("the history is %v", whys)
	}
}

// A line has room for what is left of it, however short it is.
func TestShortestLineIsErased(t *testing.T) { // N10
	h := newHouse(t)
	if err := h.Append(t.Context(), stet.Change{ID: stet.ID{Key: "k"}}); err != nil {
		t.Fatal(err)
	}
	if n, err := h.Erase(t.Context(), stet.HistoryQuery{ID: stet.ID{Key: "k"}}); n != 1 || err != nil {
		t.Fatalf("Erase: %d, %v", n, err)
	}
	if whys := h.whys(stet.HistoryQuery{}); !slices.Equal(whys, []string{stet.WhyErased}) {
		t.Errorf("the history is %v", whys)
	}
}
