package filestore

import (
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
	"github.com/stet-dev/stet/internal/tag"
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
	tag     string // "" where it has none
}

func entryOf(h *stet.Head, name string) string {
	bucket, at := neverBucket, neverBucket
	if !h.DueAt.IsZero() {
		bucket, at = bucketOf(h.DueAt), h.DueAt.Format(entryLayout)
	}
	known := ""
	if _, ok := tag.Parse(h.Tag); ok {
		known = h.Tag
	}
	return fmt.Sprintf("%s/%s/%s-%s-%s-%s-%016x-%s", dueDir, bucket, at, h.State, scopeDigest(h.Scope), name, uint64(h.Version), known)
}

func bucketOf(at time.Time) string { return at.Truncate(bucketWidth).Format(bucketLayout) }

// scopeDigest lets records of a scope be told apart by name. It is short: what it selects is checked.
func scopeDigest(s stet.Scope) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

func parseEntry(s string) (e entry, ok bool) {
	parts := strings.Split(s, "-")
	if len(parts) != 6 || !isName(parts[3]) {
		return e, false
	}
	state, err := stet.ParseState(parts[1])
	version, err2 := strconv.ParseUint(parts[4], 16, 64)
	return entry{parts[0], state, parts[2], parts[3], stet.Version(version), parts[5]}, err == nil && err2 == nil
}

// selects reports whether the entry may be of a record that q selects.
func (e *entry) selects(q *stet.Query) bool {
	return (len(q.States) == 0 || slices.Contains(q.States, e.state)) && (q.Scope == "" || e.scope == scopeDigest(q.Scope)) &&
		(q.Tag == "" || e.tag == q.Tag)
}

// bucketOfEntry is the bucket in which an entry stands; false: that is no entry of an instant.
func bucketOfEntry(name string) (string, bool) {
	e, ok := parseEntry(name)
	at, err := time.Parse(entryLayout, e.at)
	return bucketOf(at), ok && err == nil
}

// page is what a call returns of many.
type page struct {
	heads []stet.Head
	next  string
}

// Due implements [stet.Store]. What falls due in one instant comes by state, scope and name. A page reads the names of the ten
// minutes that it begins in, and on from there, and it looks at [stet.MaxLimit] records at most.
func (s *Store) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	if _, ok := bucketOfEntry(q.After); !ok && q.After != "" {
		return nil, "", fmt.Errorf("filestore: due: %q is no cursor", q.After)
	}
	q.States = slices.Clone(q.States)
	p, err := work(ctx, s, "due", "", func(ctx context.Context) (p page, err error) {
		now, n := s.now(), q.Bound()
		s.sweepNow(now)
		last, looked, left := now.Format(entryLayout), "", stet.MaxLimit
		err = s.eachEntry(ctx, q.After, bucketOf(now), func(at string, e *entry) (more bool, err error) {
			switch {
			case e.at > last:
				return false, nil
			case !e.selects(&q):
				return true, nil
			case len(p.heads) == n || left == 0: // there is one more
				p.next = looked
				return false, nil
			}
			looked, left = path.Base(at), left-1
			r, err := s.peek(e.name)
			switch {
			case errors.Is(err, errBusy), errors.Is(err, stet.ErrCorrupt): // not now; not ever, but its key is refused
				return true, nil
			case errors.Is(err, stet.ErrNotFound), err == nil && r.Version != e.version:
				return true, s.tidy(at, e)
			case err != nil:
				return false, err
			}
			if r.AsOf = now; q.Matches(&r.Head) {
				p.heads = append(p.heads, r.Head)
			}
			return true, nil
		})
		return p, err
	})
	return p.heads, p.next, err
}

// eachEntry visits the entries after the one of that name, of all buckets up to last, in order, until visit reports false.
func (s *Store) eachEntry(ctx context.Context, after, last string, visit func(at string, e *entry) (bool, error)) error {
	buckets, err := s.names(dueDir)
	if err != nil {
		return err
	}
	first, _ := bucketOfEntry(after)
	over := bucketOf(instant(s.clock.Last()).Add(-bucketGrace))
	for _, bucket := range buckets {
		switch {
		case bucket > last:
			return nil
		case after != "" && bucket < first:
			continue
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
			if e, ok := parseEntry(name); ok && name > after {
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
	err := s.eachRecord(context.Background(), "", false, func(name string) (bool, error) {
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
