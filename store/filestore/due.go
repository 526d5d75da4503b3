package filestore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tag"
	"github.com/stet-dev/stet/internal/walk"
)

// Records that fall due are found by name alone. Under due there is a directory for each ten
// minutes, and in it an entry for each record that falls due in that time: a second name of the
// record's file. Sorted by name, the entries are in the order in which the records fall due.
const (
	bucketWidth  = 10 * time.Minute
	bucketLayout = "20060102T1504Z"
	entryLayout  = "20060102T150405.000000Z"
	neverBucket  = "never" // sorts after every instant
)

// entry is the content of a name under due.
type entry struct {
	at      string // as in the name; instants sort as text
	state   stet.State
	scope   string // digest
	name    string // of the record
	version stet.Version
	tag     string // "" where it has none
	path    string
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

// scopeDigest tells the scopes of records apart by name. It is short, so the records that it
// selects are checked.
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
	return entry{at: parts[0], state: state, scope: parts[2], name: parts[3], version: stet.Version(version), tag: parts[5]},
		err == nil && err2 == nil
}

// selects reports whether the entry may belong to a record that q selects.
func (e *entry) selects(q *stet.Query) bool {
	return (len(q.States) == 0 || slices.Contains(q.States, e.state)) && (q.Scope == "" || e.scope == scopeDigest(q.Scope)) &&
		(q.Tag == "" || e.tag == q.Tag)
}

// bucketOfEntry returns the bucket of an entry, or false if the name is not an entry with an
// instant.
func bucketOfEntry(name string) (string, bool) {
	e, ok := parseEntry(name)
	at, err := time.Parse(entryLayout, e.at)
	return bucketOf(at), ok && err == nil
}

// page is one page of a list. Its cursor is the name of the last entry or file.
type page = walk.Page[stet.Head, string]

func itself(name string) string { return name }

// Due implements [stet.Store]. Records that fall due at the same instant are ordered by state,
// scope and name. A page starts in the ten minutes of its cursor, and reads at most [stet.MaxLimit]
// records.
func (s *Store) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	if _, ok := bucketOfEntry(q.After); !ok && q.After != "" {
		return nil, "", fmt.Errorf("filestore: due: %q is no cursor", q.After)
	}
	q.States = slices.Clone(q.States)
	p, err := work(ctx, s, "due", "", func(ctx context.Context) (p page, err error) {
		p.Most, p.Look = q.Bound(), stet.MaxLimit
		now := s.now()
		s.sweepNow(now)
		last := now.Format(entryLayout)
		for e, err := range s.entries(ctx, q.After, bucketOf(now)) {
			switch {
			case err != nil || e.at > last:
				return p, err
			case !e.selects(&q):
				continue
			case !p.Takes(path.Base(e.path)):
				return p, nil
			}
			r, found, err := s.meet(e)
			if err != nil {
				return p, err
			}
			if r.AsOf = now; found && q.Matches(&r.Head) {
				p.Rows = append(p.Rows, r.Head)
			}
		}
		return p, nil
	})
	return p.Rows, p.Next(itself), err
}

// entries are those after the one named after, in all buckets up to last, in order.
func (s *Store) entries(ctx context.Context, after, last string) iter.Seq2[*entry, error] {
	first, _ := bucketOfEntry(after)
	return func(yield func(*entry, error) bool) {
		buckets, err := s.names(dueDir)
		if err != nil {
			yield(nil, err)
		}
		for _, bucket := range buckets {
			if bucket > last || after != "" && bucket < first {
				continue
			}
			for e, err := range s.bucket(ctx, bucket, after) {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// bucket goes through the entries of a bucket, and removes one that is empty and over.
func (s *Store) bucket(ctx context.Context, bucket, after string) iter.Seq2[*entry, error] {
	dir := dueDir + "/" + bucket
	return func(yield func(*entry, error) bool) {
		names, err := s.names(dir)
		if err != nil {
			yield(nil, err)
		}
		if len(names) == 0 && err == nil && bucket < bucketOf(s.now().Add(-bucketGrace)) {
			_ = s.root.Remove(dir) // it is in use again if that fails
		}
		for _, name := range names {
			if e, ok := parseEntry(name); ok && name > after {
				e.path = dir + "/" + name
				if err := ctx.Err(); !yield(&e, err) || err != nil {
					return
				}
			}
		}
	}
}

// meet reads the record of an entry, and removes an entry that a crash left behind. found is false
// for such an entry, for a record that is being written, and for a damaged one, which is refused
// for its key alone.
func (s *Store) meet(e *entry) (r stet.Record, found bool, err error) {
	r, err = s.peek(e.name, 0)
	switch {
	case errors.Is(err, errBusy), errors.Is(err, stet.ErrCorrupt):
		return r, false, nil
	case errors.Is(err, stet.ErrNotFound), err == nil && r.Version != e.version:
		return r, false, s.tidy(e)
	}
	return r, err == nil, err
}

// tidy removes an entry that a crash left behind. The file of an entry is locked while its write is
// in progress; once the lock is free, the record either has that version or never will.
func (s *Store) tidy(e *entry) error {
	f, err := s.root.OpenFile(e.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ignore(err, fs.ErrNotExist)
	}
	defer func() { _ = release(f) }()
	if ok, err := exclusive.try(f); err != nil || !ok {
		return err
	}
	r, err := s.peek(e.name, 0) // busy, too, where it is the very file that is locked here
	if errors.Is(err, stet.ErrNotFound) || err == nil && r.Version != e.version {
		return s.remove(e.path)
	}
	return ignore(ignore(err, errBusy), stet.ErrCorrupt)
}

func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

// index creates due from the records if it is missing. No other process has the store open. The
// directory is built under tmp, because half an index would be taken for a complete one.
func (s *Store) index() error {
	if _, err := s.root.Lstat(dueDir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	const aside = tmpDir + "/" + dueDir
	if err := s.root.Mkdir(aside, 0o700); err != nil {
		return err
	}
	for name, err := range s.records(context.Background(), "", false) {
		var r stet.Record
		if err == nil {
			r, err = s.peek(name, 0)
		}
		if errors.Is(err, stet.ErrCorrupt) || errors.Is(err, errBusy) {
			continue
		}
		entry := tmpDir + "/" + entryOf(&r.Head, name)
		if err == nil {
			err = ignore(s.root.Mkdir(path.Dir(entry), 0o700), fs.ErrExist)
		}
		if err == nil {
			err = s.root.Link(pathOf(name), entry)
		}
		if err != nil {
			return err
		}
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

// running returns the records of runs that go on, or nil if they cannot be listed.
func (s *Store) running() (heads []stet.Head) {
	for e, err := range s.entries(context.Background(), "", neverBucket) {
		if err != nil {
			return nil
		}
		if e.state != stet.Running {
			continue
		}
		if r, found, err := s.meet(e); err == nil && found && r.State == stet.Running && r.Cause != stet.CauseSuspended {
			heads = append(heads, r.Head)
		}
	}
	return heads
}

// Left implements [stet.Heir].
func (s *Store) Left() []stet.Head { return s.left }
