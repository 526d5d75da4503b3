//go:build unix

package filestore

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// abandon leaves behind what a process does that dies before the record has its name.
func (h *house) abandon(key stet.Key, dueIn time.Duration) *draft {
	h.t.Helper()
	d := h.begun(key, dueIn)
	d.close() // by the kernel
	return d
}

// begun is a write under way.
func (h *house) begun(key stet.Key, dueIn time.Duration) *draft {
	h.t.Helper()
	r := running(key, dueIn)
	codec.Stamp(&r.Head, &stet.Head{}, h.now())
	d, err := h.draft(&r, nameOf(r.ID))
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

func (h *house) has(name string) bool {
	_, err := os.Lstat(filepath.Join(h.dir, name))
	return err == nil
}

func TestProcessThatDiesAmongOthersLeavesNothing(t *testing.T) {
	for name, sweep := range map[string]func(h *house, clock *time.Time){
		"who opens the store sweeps": func(h *house, _ *time.Time) { h.open(time.Now) },
		"who goes on sweeps":         func(h *house, clock *time.Time) { *clock = clock.Add(sweepEvery); h.due() },
	} {
		t.Run(name, func(t *testing.T) {
			h, clock := newHouse(t), time.Now()
			h.open(time.Now) // a second process, so that neither is ever alone
			h.clock.Now = func() time.Time { return clock }
			h.due()
			dead, half := h.abandon("dead", time.Hour), "tmp/STRAY"+extension
			if err := os.WriteFile(filepath.Join(h.dir, half), []byte("half a rec"), 0o600); err != nil {
				t.Fatal(err)
			}
			linked := h.create("linked", time.Hour) // it died before the draft's first name went
			if err := h.root.Link(pathOf(nameOf(linked.ID)), "tmp/linked"+extension); err != nil {
				t.Fatal(err)
			}
			live := h.begun("live", time.Hour)
			defer live.close()
			sweep(h, &clock)
			for what, gone := range map[string]bool{dead.temp: true, dead.entry: true, half: true, "tmp/linked" + extension: true,
				live.temp: false, live.entry: false, entryOf(&linked.Head, nameOf(linked.ID)): false} {
				if h.has(what) == gone {
					t.Errorf("%s is there, or not: want gone %v", what, gone)
				}
			}
			if _, err := h.Get(t.Context(), linked.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpenTidiesWhatNeverFallsDue(t *testing.T) { // Due does not come by there
	h := newHouse(t)
	kept := h.create("kept", stet.Never)
	moved := h.create("moved", stet.Never)
	entry := entryOf(&moved.Head, nameOf(moved.ID))
	if err := h.root.Link(entry, "tmp/kept"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Replace(t.Context(), moved.Version, next(moved, time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if err := h.root.Rename("tmp/kept", entry); err != nil { // replaced, and the process died before the old entry went
		t.Fatal(err)
	}
	h.open(time.Now)
	if h.has(entry) || !h.has(entryOf(&kept.Head, nameOf(kept.ID))) {
		t.Errorf("the dead entry stays: %v; the live one stays: %v", h.has(entry), !h.has(entry))
	}
}

func TestWhoIsAloneEmptiesTmp(t *testing.T) {
	dir := t.TempDir()
	h := &house{t: t, dir: dir}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "tmp", "due", "never"), 0o700), os.WriteFile(filepath.Join(dir, "tmp", "x"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	h.Store = h.open(time.Now)
	if left, err := h.names(tmpDir); err != nil || len(left) != 0 {
		t.Errorf("left in tmp: %v, %v", left, err)
	}
}

// A draft that was made but is not locked yet looks like a dead writer's.
func TestSweepingDoesNotDisturbWriters(t *testing.T) {
	h, other := newHouse(t), &house{t: t}
	other.dir = h.dir
	other.Store = other.open(time.Now)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				if err := other.sweep(); err != nil {
					stopped <- err
					return
				}
			}
		}
	}()
	for i := range 150 {
		h.create(stet.Key(strconv.Itoa(i)), time.Hour)
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if left := h.files(tmpDir); len(left) != 0 || len(slices.Compact(h.files(dueDir))) != 150 {
		t.Errorf("left in tmp: %v; %d entries", left, len(h.files(dueDir)))
	}
}
