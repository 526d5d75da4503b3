//go:build unix

package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// noted is the next head of r, changed with a note.
func noted(r stet.Record, why string) stet.Head {
	head := next(r, time.Hour)
	head.State, head.Note = stet.Retryable, &stet.Note{Who: "ops", Why: why, Evidence: "ch_1"}
	return head
}

// change makes a change with a note, and returns the record as it is then.
func (h *house) change(r stet.Record, why string) stet.Record {
	h.t.Helper()
	head, err := h.Replace(h.t.Context(), r.Version, noted(r, why), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return stet.Record{Head: head}
}

// whys reads the whole history, page by page.
func (h *house) whys(q stet.HistoryQuery) (whys []string) {
	h.t.Helper()
	for {
		changes, next, err := h.History(h.t.Context(), q)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, c := range changes {
			whys = append(whys, c.Note.Why)
		}
		if q.After = next; next == "" {
			return whys
		}
	}
}

func TestHistory(t *testing.T) {
	h := newHouse(t)
	if whys := h.whys(stet.HistoryQuery{}); len(whys) != 0 {
		t.Errorf("before any change: %v", whys)
	}
	born := running("a", time.Hour)
	born.Note = &stet.Note{Who: "ops", Why: "born with a note"}
	a, err := h.Create(t.Context(), born)
	if err != nil {
		t.Fatal(err)
	}
	b := h.create("b", time.Hour)
	var want []string // newest first
	for i := range 5 {
		a, b = h.change(a, "a"+strconv.Itoa(i)), h.change(b, "b"+strconv.Itoa(i))
		want = slices.Insert(want, 0, "b"+strconv.Itoa(i), "a"+strconv.Itoa(i))
	}
	a.Note = nil
	if _, err := h.Replace(t.Context(), a.Version, next(a, time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Delete(t.Context(), b.ID, b.Version); err != nil { // entries outlive their record
		t.Fatal(err)
	}
	for limit := range len(want) + 2 {
		if got := h.whys(stet.HistoryQuery{Limit: limit}); !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %v, want %v", limit, got, want)
		}
	}
	if got := h.whys(stet.HistoryQuery{ID: b.ID, Limit: 2}); !slices.Equal(got, []string{"b4", "b3", "b2", "b1", "b0"}) {
		t.Errorf("of one key: %v", got)
	}
	if changes, next, err := h.History(t.Context(), stet.HistoryQuery{Limit: 5, ID: b.ID}); len(changes) != 5 || next != "" || err != nil {
		t.Errorf("a last page that is full: %d, %q, %v", len(changes), next, err)
	}
	changes, _, err := h.History(t.Context(), stet.HistoryQuery{ID: a.ID, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := changes[0], (stet.Change{ID: a.ID, From: stet.Retryable, To: stet.Retryable, Attempt: 1, At: a.UpdatedAt,
		Note: stet.Note{Who: "ops", Why: "a4", Evidence: "ch_1"}}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, after := range []string{"x", "-1", "7", "99999999"} {
		if _, _, err := h.History(t.Context(), stet.HistoryQuery{After: after}); err == nil {
			t.Errorf("%q was taken for a cursor", after)
		}
	}
	if left, err := h.names(pendingDir); err != nil || len(left) != 0 {
		t.Errorf("pending: %v", left)
	}
}

// Whatever fails while a change is made, and whatever call comes next: the change is there with its
// entry, or there is neither.
func TestChangeIsNeverWithoutItsEntry(t *testing.T) {
	after := map[string]func(h *house, r stet.Record, sent stet.Head) error{
		"the history is read": func(*house, stet.Record, stet.Head) error { return nil },
		"it is sent again": func(h *house, r stet.Record, sent stet.Head) error {
			head, err := h.Replace(h.t.Context(), r.Version, sent, nil)
			if errors.Is(err, stet.ErrStale) && head.Version != sent.Version {
				return err
			}
			return ignore(err, stet.ErrStale)
		},
		"it is replaced": func(h *house, r stet.Record, _ stet.Head) error {
			now, err := h.Get(h.t.Context(), r.ID)
			if err == nil {
				now.Note = nil
				_, err = h.Replace(h.t.Context(), now.Version, next(now, time.Hour), nil)
			}
			return err
		},
		"it is deleted": func(h *house, r stet.Record, _ stet.Head) error {
			now, err := h.Get(h.t.Context(), r.ID)
			if err == nil {
				err = h.Delete(h.t.Context(), r.ID, now.Version)
			}
			return err
		},
	}
	for name, then := range after {
		failed := 0
		for step := 1; ; step++ {
			h := newHouse(t)
			r := h.create("k", time.Hour)
			n, reached := 0, ""
			h.fsync = func(f *os.File) error {
				if n++; n >= step { // and all that come after it
					reached = f.Name()
					return syscall.EIO
				}
				return f.Sync()
			}
			sent := noted(r, "why")
			_, err := h.Replace(t.Context(), r.Version, sent, nil)
			if reached == "" {
				break
			}
			failed++
			at := fmt.Sprintf("step %d (%s), then %s", step, reached, name)
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s: acknowledged: %v", at, err)
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			h.Store = h.open(time.Now)
			now, err := h.Get(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			if now.Version == sent.Version || name == "it is sent again" {
				want = 1
			}
			if err := then(h, r, sent); err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			if whys := h.whys(stet.HistoryQuery{}); len(whys) != want {
				t.Errorf("%s: %d entries, want %d", at, len(whys), want)
			}
			if left, err := h.names(pendingDir); err != nil || len(left) != 0 {
				t.Errorf("%s: pending: %v", at, left)
			}
		}
		if failed < 6 {
			t.Errorf("%s: only %d steps failed", name, failed)
		}
	}
}

func TestEntryIsAddedOnce(t *testing.T) { // the process died, or the power went, before the announcement was gone
	h := newHouse(t)
	r := h.create("k", time.Hour)
	now := h.change(r, "why")
	for range 2 {
		if err := h.announce(changeOf(&r.Head, &now.Head), nameOf(r.ID)); err != nil {
			t.Fatal(err)
		}
		if whys := h.whys(stet.HistoryQuery{}); len(whys) != 1 {
			t.Errorf("%d entries, want 1", len(whys))
		}
	}
}

func TestChangeThatDidNotHappenHasNoEntry(t *testing.T) { // announced, and the process died
	for name, then := range map[string]func(h *house, r stet.Record) error{
		"the history is read": func(*house, stet.Record) error { return nil },
		"it is deleted":       func(h *house, r stet.Record) error { return h.Delete(t.Context(), r.ID, r.Version) },
		"another is made":     func(h *house, r stet.Record) error { h.change(r, "made"); return nil },
	} {
		h := newHouse(t)
		r := h.create("k", time.Hour)
		head := noted(r, "not made")
		if err := h.announce(changeOf(&r.Head, &head), nameOf(r.ID)); err != nil {
			t.Fatal(err)
		}
		if err := then(h, r); err != nil {
			t.Fatal(err)
		}
		if whys := h.whys(stet.HistoryQuery{}); slices.Contains(whys, "not made") {
			t.Errorf("%s: the history has %v", name, whys)
		}
		if left := h.files(pendingDir); len(left) != 0 {
			t.Errorf("%s: pending: %v", name, left)
		}
	}
}

func TestEntryThatWasNotSyncedIsTakenBack(t *testing.T) { // a second sync may find nothing to do and succeed: it is written again
	h := newHouse(t)
	r := h.create("k", time.Hour)
	h.fsync = func(f *os.File) error {
		if filepath.Base(f.Name()) == auditFile {
			return syscall.EIO
		}
		return f.Sync()
	}
	if _, err := h.Replace(t.Context(), r.Version, noted(r, "why"), nil); !errors.Is(err, syscall.EIO) {
		t.Errorf("Replace: %v, want EIO", err)
	}
	if b, err := os.ReadFile(filepath.Join(h.dir, auditFile)); err != nil || len(b) != 0 {
		t.Errorf("%d bytes stand in the history (%v)", len(b), err)
	}
	h.fsync = (*os.File).Sync
	if whys := h.whys(stet.HistoryQuery{}); len(whys) != 1 {
		t.Errorf("%d entries with the disk well again, want 1", len(whys))
	}
}

func TestHalfALineIsNoEntry(t *testing.T) {
	h := newHouse(t)
	r := h.change(h.create("k", time.Hour), strings.Repeat("first", 40<<10)) // longer than what is read at a time
	path := filepath.Join(h.dir, auditFile)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(before, before[:len(before)/2]...), 0o600); err != nil {
		t.Fatal(err)
	}
	if whys := h.whys(stet.HistoryQuery{}); len(whys) != 1 || len(whys[0]) != 200<<10 {
		t.Errorf("%d entries", len(whys))
	}
	h.change(r, "second")
	if whys := h.whys(stet.HistoryQuery{Limit: 1}); len(whys) != 2 || whys[0] != "second" {
		t.Errorf("%d entries", len(whys))
	}
	if after, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(after), string(before)) {
		t.Errorf("what stood in the history was changed (%v)", err)
	}
}

func TestHistoryOfSeveralProcesses(t *testing.T) {
	h := newHouse(t)
	var all sync.WaitGroup
	const processes, changes = 3, 8
	for p := range processes {
		other := &house{t: t, dir: h.dir}
		other.Store = other.open(time.Now)
		all.Go(func() {
			r, err := other.Create(t.Context(), running(stet.Key(strconv.Itoa(p)), time.Hour))
			for i := range changes {
				if err == nil {
					r.Head, err = other.Replace(t.Context(), r.Version, noted(r, fmt.Sprint(p, i)), nil)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for range 20 {
			if _, _, err := h.History(t.Context(), stet.HistoryQuery{}); err != nil {
				t.Errorf("read while it grows: %v", err)
			}
		}
	}()
	all.Wait()
	<-read
	whys := h.whys(stet.HistoryQuery{Limit: 5})
	if slices.Sort(whys); len(slices.Compact(whys)) != processes*changes {
		t.Errorf("%d entries, want %d", len(whys), processes*changes)
	}
}

func TestHistoryWaitsForAChangeUnderWay(t *testing.T) { // its writer may die before it adds the entry itself
	h := newHouse(t)
	r := h.create("k", time.Hour)
	hangs, heal := make(chan struct{}), make(chan struct{})
	h.fsync = func(f *os.File) error {
		if filepath.Base(f.Name()) == auditFile {
			close(hangs)
			<-heal
		}
		return f.Sync()
	}
	other := &house{t: t, dir: h.dir}
	other.Store = other.open(time.Now)
	done := make(chan error)
	go func() {
		_, err := h.Replace(t.Context(), r.Version, noted(r, "why"), nil)
		done <- err
	}()
	<-hangs
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if changes, _, err := other.History(ctx, stet.HistoryQuery{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the entry is added: %d entries, %v; want to wait", len(changes), err)
	}
	close(heal)
	if whys := other.whys(stet.HistoryQuery{}); len(whys) != 1 {
		t.Errorf("%d entries, want 1", len(whys))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDamagedHistory(t *testing.T) {
	h := newHouse(t)
	r := h.change(h.create("k", time.Hour), "first")
	path := filepath.Join(h.dir, auditFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"x\n", strings.Replace(string(b), `"schema":1`, `"schema":2`, 1), strings.Replace(string(b), "running", "paused", 1), "\n"} {
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.History(t.Context(), stet.HistoryQuery{}); !errors.Is(err, stet.ErrCorrupt) {
			t.Errorf("%q: %v, want ErrCorrupt", line, err)
		}
		r = h.change(r, "later") // what comes does not depend on what was
	}
}

func TestPlantedHistoryIsNotFollowed(t *testing.T) { // SE-02
	for name, plant := range map[string]func(path string) error{
		"a symbolic link": func(path string) error {
			return errors.Join(os.WriteFile(filepath.Join(filepath.Dir(path), "elsewhere"), nil, 0o600), os.Symlink("elsewhere", path))
		},
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		h := newHouse(t)
		r := h.create("k", time.Hour)
		if err := plant(filepath.Join(h.dir, auditFile)); err != nil {
			t.Fatal(err)
		}
		_, err := h.Replace(t.Context(), r.Version, noted(r, "why"), nil)
		_, _, err2 := h.History(t.Context(), stet.HistoryQuery{})
		if err == nil || err2 == nil || errors.Is(err, stet.ErrCorrupt) || errors.Is(err, stet.ErrNotFound) {
			t.Errorf("%s: Replace %v, History %v", name, err, err2) // the record is changed: the error must not say that nothing was
		}
		if err := os.Remove(filepath.Join(h.dir, auditFile)); err != nil {
			t.Fatal(err)
		}
		if whys := h.whys(stet.HistoryQuery{}); len(whys) != 1 {
			t.Errorf("%s: %d entries when it is gone, want 1", name, len(whys))
		}
	}
}

func TestDamagedAnnouncementRefusesItsKeyAlone(t *testing.T) {
	h := newHouse(t)
	k, l := h.create("k", time.Hour), h.create("l", time.Hour)
	head := noted(l, "of another key")
	if err := h.announce(changeOf(&l.Head, &head), nameOf(k.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Replace(t.Context(), k.Version, next(k, time.Hour), nil); !errors.Is(err, stet.ErrCorrupt) {
		t.Errorf("Replace: %v, want ErrCorrupt", err)
	}
	h.change(l, "why")
	if whys := h.whys(stet.HistoryQuery{ID: l.ID}); len(whys) != 1 {
		t.Errorf("%d entries, want 1", len(whys))
	}
	for _, q := range []stet.HistoryQuery{{}, {ID: k.ID}} { // its change may have happened
		if _, _, err := h.History(t.Context(), q); !errors.Is(err, stet.ErrCorrupt) {
			t.Errorf("History: %v, want ErrCorrupt", err)
		}
	}
}
