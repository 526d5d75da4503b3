package filestore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stet-dev/stet"
)

// What falls due is found by name alone. Under due there is a directory for each ten minutes, and in it an entry for each
// record that falls due then: another name of the record's file. Sorted by name they are in the order they fall due.
const (
	bucketWidth  = 10 * time.Minute
	bucketLayout = "20060102T1504Z"
	entryLayout  = "20060102T150405.000000Z"
	neverBucket  = "never" // sorts after every instant
)

// entry is what a name under due says.
type entry struct {
	at      string // as in the name; instants sort as text
	state   stet.State
	scope   string // digest
	name    string // of the record
	version stet.Version
}

func entryOf(h *stet.Head, name string) string {
	bucket, at := neverBucket, neverBucket
	if !h.DueAt.IsZero() {
		bucket, at = bucketOf(h.DueAt), h.DueAt.Format(entryLayout)
	}
	return fmt.Sprintf("%s/%s/%s-%s-%s-%s-%016x", dueDir, bucket, at, h.State, scopeDigest(h.Scope), name, uint64(h.Version))
}

func bucketOf(at time.Time) string { return at.Truncate(bucketWidth).Format(bucketLayout) }

// scopeDigest lets records of a scope be told apart by name. It is short: what it selects is checked.
func scopeDigest(s stet.Scope) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

func parseEntry(s string) (e entry, ok bool) {
	parts := strings.Split(s, "-")
	if len(parts) != 5 || !isName(parts[3]) {
		return e, false
	}
	state, err := stet.ParseState(parts[1])
	version, err2 := strconv.ParseUint(parts[4], 16, 64)
	return entry{parts[0], state, parts[2], parts[3], stet.Version(version)}, err == nil && err2 == nil
}

// selects reports whether the entry may be of a record that q selects.
func (e *entry) selects(q *stet.Query) bool {
	return (len(q.States) == 0 || slices.Contains(q.States, e.state)) && (q.Scope == "" || e.scope == scopeDigest(q.Scope))
}

// Due implements [stet.Store]. It reads the names of what falls due by the end of these ten minutes, and the records that are
// due.
func (s *Store) Due(ctx context.Context, q stet.Query) (_ []stet.Head, next string, err error) {
	q.States = slices.Clone(q.States)
	heads, err := work(ctx, s, "due", "", func(ctx context.Context) ([]stet.Head, error) {
		var heads []stet.Head
		now, n := s.now(), limit(q)
		s.sweepNow(now)
		last := now.Format(entryLayout)
		err := s.eachEntry(ctx, bucketOf(now), func(at string, e *entry) (more bool, err error) {
			if e.at > last || !e.selects(&q) {
				return e.at <= last, nil
			}
			r, err := s.peek(e.name)
			switch {
			case errors.Is(err, errBusy), errors.Is(err, stet.ErrCorrupt): // not now; not ever, but its key is refused
				return true, nil
			case errors.Is(err, stet.ErrNotFound), err == nil && r.Version != e.version:
				return true, s.tidy(at, e)
			case err != nil:
				return false, err
			}
			if r.AsOf = now; matches(&r.Head, &q) {
				heads = append(heads, r.Head)
			}
			return len(heads) < n, nil
		})
		return heads, err
	})
	return heads, next, err
}

// eachEntry visits the entries of all buckets up to last, in order, until visit reports false.
func (s *Store) eachEntry(ctx context.Context, last string, visit func(at string, e *entry) (bool, error)) error {
	buckets, err := s.names(dueDir)
	if err != nil {
		return err
	}
	over := bucketOf(instant(s.latest.Load()).Add(-bucketGrace))
	for _, bucket := range buckets {
		if bucket > last {
			return nil
		}
		names, err := s.names(dueDir + "/" + bucket)
		if err != nil {
			return err
		}
		if len(names) == 0 && bucket < over {
			_ = s.root.Remove(dueDir + "/" + bucket) // it is in use again if that fails
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if e, ok := parseEntry(name); ok {
				if more, err := visit(dueDir+"/"+bucket+"/"+name, &e); err != nil || !more {
					return err
				}
			}
		}
	}
	return nil
}

// tidy removes an entry that a crash left behind. Its file is locked while a write is under way; once it is not, the record
// has that version, or never will.
func (s *Store) tidy(at string, e *entry) error {
	f, err := s.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ignore(err, fs.ErrNotExist)
	}
	defer func() { _ = f.Close() }()
	if ok, err := exclusive.try(f); err != nil || !ok {
		return err
	}
	r, err := s.peek(e.name) // busy, too, where it is the very file that is locked here
	switch {
	case errors.Is(err, errBusy), errors.Is(err, stet.ErrCorrupt), err == nil && r.Version == e.version:
		return nil
	case err != nil && !errors.Is(err, stet.ErrNotFound):
		return err
	}
	return s.remove(at)
}

func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

// index makes due from the records, where it is missing. Nobody else has the store open. It is made aside: half an index
// would be taken for a whole one.
func (s *Store) index() error {
	if _, err := s.root.Lstat(dueDir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	const aside = tmpDir + "/" + dueDir
	if err := s.root.Mkdir(aside, 0o700); err != nil {
		return err
	}
	err := s.eachRecord(context.Background(), "", func(name string) (bool, error) {
		r, err := s.peek(name)
		if err != nil {
			return true, ignore(ignore(err, stet.ErrCorrupt), errBusy)
		}
		entry := tmpDir + "/" + entryOf(&r.Head, name)
		if err := s.root.Mkdir(path.Dir(entry), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
		return true, s.root.Link(pathOf(name), entry)
	})
	if err != nil {
		return err
	}
	if err := s.syncTree(aside); err != nil {
		return err
	}
	return s.root.Rename(aside, dueDir)
}

func (s *Store) syncTree(dir string) error {
	names, err := s.names(dir)
	for _, name := range names {
		err = errors.Join(err, s.sync(dir+"/"+name))
	}
	return errors.Join(err, s.sync(dir))
}

func limit(q stet.Query) int { return min(cmp.Or(max(q.Limit, 0), stet.DefaultLimit), stet.MaxLimit) }

func matches(h *stet.Head, q *stet.Query) bool {
	switch {
	case len(q.States) > 0 && !slices.Contains(q.States, h.State),
		q.Scope != "" && q.Scope != h.Scope,
		q.Route != "" && q.Route != h.Route,
		q.Failed && h.Status < 500,
		q.Succeeded && h.Status >= 500,
		q.OlderThan > 0 && h.CreatedAt.After(h.AsOf.Add(-q.OlderThan)):
		return false
	}
	return true
}
