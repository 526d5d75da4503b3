//go:build unix

package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

const storeName = "store.d"

// killedHouse is a directory with the one of a store that was killed, and what is remembered beside
// it: records in several states, a history, and a change that is pending.
func killedHouse(t *testing.T) (above string, kept []stet.Record) {
	t.Helper()
	above = t.TempDir()
	h := &house{t: t, dir: filepath.Join(above, storeName)}
	h.Store = h.open(time.Now)
	for i := range 6 {
		r := h.create(stet.Key(fmt.Sprintf("kept-%02d", i)), []time.Duration{time.Hour, stet.Never}[i%2])
		if i < 3 {
			r = h.change(r, "a reason")
		}
		kept = append(kept, r)
	}
	h.fsync = func(f *os.File) error {
		if strings.HasSuffix(f.Name(), auditFile) {
			return errors.New("killed here")
		}
		return f.Sync()
	}
	last := kept[len(kept)-1]
	sent := noted(last, "it is pending")
	if _, err := h.Replace(t.Context(), last.Version, sent, nil); err == nil {
		t.Fatal("nothing is pending")
	}
	kept[len(kept)-1] = stet.Record{Head: sent}
	killed := t.TempDir()
	must(t, copyTree(above, killed))
	return killed, kept
}

// verdicts opens the store in a directory and makes each record again. found says what is
// noticed of what is wrong: that it is not opened, that a key is refused, that the history is, and
// what Verify finds.
func verdicts(t *testing.T, above string, kept []stet.Record) (forgotten int, history []stet.Change, found []string) {
	t.Helper()
	s, err := Open(filepath.Join(above, storeName), Config{})
	if err != nil {
		return 0, nil, []string{err.Error()}
	}
	defer func() { _ = s.Close() }()
	if all, err := s.Verify(t.Context()); err != nil || len(all) > 0 {
		found = append(all, fmt.Sprint(err))
	}
	for _, r := range kept {
		again := running(r.Key, time.Hour)
		got, err := s.Create(t.Context(), again)
		switch {
		case errors.Is(err, stet.ErrExists) && got.Version == r.Version:
		case err == nil:
			forgotten++
		default:
			found = append(found, err.Error())
		}
	}
	history, _, err = s.History(t.Context(), stet.HistoryQuery{})
	if err != nil {
		found = append(found, err.Error())
	}
	return forgotten, history, found
}

// One bit of one file turns over: each record is found as it was, or its key is refused, or nothing
// is opened. The history is as it was, or is refused (S06, I5).
func TestFlippedBitsForgetNothing(t *testing.T) {
	killed, kept := killedHouse(t)
	whole := t.TempDir()
	must(t, copyTree(killed, whole))
	forgotten, changes, found := verdicts(t, whole, kept)
	if forgotten > 0 || len(changes) != 4 || len(found) > 0 {
		t.Fatalf("of a whole store %d keys are forgotten, %d changes are known, and %q are found", forgotten, len(changes), found)
	}
	flips, noticed := map[string]int{}, map[string]int{}
	for _, at := range everyFile(t, killed) {
		good, err := os.ReadFile(filepath.Join(killed, at))
		must(t, err)
		kind, _, _ := strings.Cut(strings.TrimPrefix(at, storeName+"/"), "/")
		for _, bit := range places(good) {
			above := t.TempDir()
			must(t, copyTree(killed, above))
			bad := bytes.Clone(good)
			bad[bit/8] ^= 1 << (bit % 8)
			must(t, os.WriteFile(filepath.Join(above, at), bad, 0o600))
			forgotten, now, found := verdicts(t, above, kept)
			if forgotten > 0 {
				t.Errorf("bit %d of %s: %d keys are new", bit, at, forgotten)
			}
			pending := kind == recordsDir && slices.Equal(now, changes[1:]) // of a record that cannot be read
			if len(now) > 0 && !slices.Equal(now, changes) && !pending {
				t.Errorf("bit %d of %s: the history is another one: %v", bit, at, now)
			}
			flips[kind]++
			if len(found) > 0 {
				noticed[kind]++
			}
		}
	}
	t.Logf("noticed are %v of %v", noticed, flips)
	for _, kind := range []string{recordsDir, pendingDir, auditFile, storeFile, storeName + seenSuffix} {
		if noticed[kind] == 0 {
			t.Errorf("of %d in %s none is noticed: the test does not reach what it is about", flips[kind], kind)
		}
	}
	if noticed[recordsDir] != flips[recordsDir] {
		t.Errorf("of %d in records %d are noticed", flips[recordsDir], noticed[recordsDir])
	}
}

// One bit of the name of a file turns over, as in a damaged directory. A record's key is new then,
// which is found by reading all of the store; any other name forgets nothing (S06).
func TestFlippedBitsInNamesAreFound(t *testing.T) {
	killed, kept := killedHouse(t)
	for _, at := range everyFile(t, killed) {
		for _, bit := range []int{1, 4} {
			above := t.TempDir()
			must(t, copyTree(killed, above))
			base := []byte(filepath.Base(at))
			base[rand.N(len(base))] ^= 1 << bit
			if bytes.ContainsAny(base, "/\x00") {
				continue
			}
			must(t, os.Rename(filepath.Join(above, at), filepath.Join(above, filepath.Dir(at), string(base))))
			if forgotten, _, found := verdicts(t, above, kept); forgotten > 0 && len(found) == 0 {
				t.Errorf("%s becomes %q: %d keys are new, and nothing is found", at, base, forgotten)
			}
		}
	}
}

func everyFile(t *testing.T, above string) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(above), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			all = append(all, path)
		}
		return err
	})
	must(t, err)
	return all
}

// places are some bits of a file, or all with STET_SOAK.
func places(b []byte) (bits []int) {
	for bit := range 8 * len(b) {
		bits = append(bits, bit)
	}
	if most := 12; os.Getenv("STET_SOAK") == "" && len(bits) > most {
		rand.Shuffle(len(bits), func(i, j int) { bits[i], bits[j] = bits[j], bits[i] })
		bits = append(bits[:most], 8*len(b)-7) // and the end of the last line
	}
	return bits
}
