package filestore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stet-dev/stet"
)

// look is how many files a page of a list reads at most.
const look = 5_000

// List implements [stet.Lister], in the order of the files' names, which is unrelated to their age.
// A page reads up to 5,000 records; records named by their tag, or by scope and key, are found
// directly. A file that cannot be read is left out.
func (s *Store) List(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	if q.After != "" && !isName(q.After) {
		return nil, "", fmt.Errorf("filestore: list: %q is no cursor", q.After)
	}
	q.States = slices.Clone(q.States)
	p, err := work(ctx, s, "list", "", func(ctx context.Context) (p page, err error) {
		now, last, looked := s.now(), "", 0
		visit := func(name string) (bool, error) {
			if len(p.heads) == q.Bound() || looked == look { // there is one more
				p.next = last
				return false, nil
			}
			last, looked = name, looked+1
			r, err := s.get(ctx, name)
			if err != nil {
				return true, ignore(ignore(err, stet.ErrCorrupt), stet.ErrNotFound)
			}
			if r.AsOf = now; q.Matches(&r.Head) {
				p.heads = append(p.heads, r.Head)
			}
			return true, nil
		}
		switch {
		case q.Tag != "":
			var names []string
			if names, err = s.tagged(ctx, q.Tag); err == nil {
				err = between(names, q.After, q.Oldest, visit)
			}
		case q.Scope != "" && q.Key != "":
			err = between([]string{nameOf(stet.ID{Scope: q.Scope, Key: q.Key})}, q.After, q.Oldest, visit)
		default:
			err = s.eachRecord(ctx, q.After, q.Oldest, visit)
		}
		return p, err
	})
	if err != nil {
		return nil, "", err
	}
	return p.heads, p.next, nil
}

// tagged returns the names of the records with a tag, from the names under due. A record that is
// written meanwhile moves, maybe from a directory that was not read yet to one that was. Therefore
// a second try follows when nothing is found.
func (s *Store) tagged(ctx context.Context, tag string) (names []string, err error) {
	for try := 0; len(names) == 0 && err == nil && try < 2; try++ {
		err = s.eachEntry(ctx, "", neverBucket, func(_ string, e *entry) (bool, error) {
			if e.tag == tag {
				names = append(names, e.name)
			}
			return true, nil
		})
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// between visits the names after one, in order or, if back is set, in reverse order, until visit
// returns false. "" is before all names.
func between(names []string, after string, back bool, visit func(string) (bool, error)) error {
	if back {
		slices.Reverse(names)
	}
	for _, name := range names {
		if after != "" && (name == after || name < after != back) {
			continue
		}
		if more, err := visit(name); err != nil || !more {
			return err
		}
	}
	return nil
}

func isName(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(s) == nameLen && hex.EncodeToString(b) == s
}

// errEnough ends a walk.
var errEnough = errors.New("that is enough")

// eachRecord visits the names of all records after a name, in order or in reverse order, until
// visit returns false.
func (s *Store) eachRecord(ctx context.Context, after string, back bool, visit func(name string) (bool, error)) error {
	dirs, err := s.names(recordsDir)
	if err != nil {
		return err
	}
	if back {
		slices.Reverse(dirs)
	}
	for _, dir := range dirs {
		if after != "" && dir != after[:2] && dir < after[:2] != back {
			continue
		}
		files, err := s.names(recordsDir + "/" + dir)
		if err != nil {
			return err
		}
		var names []string
		for _, file := range files {
			if name, ok := strings.CutSuffix(file, extension); ok && isName(name) {
				names = append(names, name)
			}
		}
		err = between(names, after, back, func(name string) (bool, error) {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			more, err := visit(name)
			if err == nil && !more {
				err = errEnough
			}
			return more, err
		})
		if err != nil {
			return ignore(err, errEnough)
		}
	}
	return nil
}

// Count implements [stet.Counter]. States and scope are counted by the names under due; for any
// other filter the records are read. After a crash, a record that was being written may be counted
// twice until its entry falls due.
func (s *Store) Count(ctx context.Context, q stet.Query) (int, error) {
	q.States = slices.Clone(q.States)
	byName := q.Route == "" && !q.Failed && !q.Succeeded && q.OlderThan <= 0 && q.NewerThan <= 0 && !q.ByDetail()
	return work(ctx, s, "count", "", func(ctx context.Context) (n int, err error) {
		now := s.now()
		err = s.eachEntry(ctx, "", neverBucket, func(_ string, e *entry) (bool, error) {
			counts := e.selects(&q)
			if counts && !byName {
				r, err := s.peek(e.name)
				switch {
				case errors.Is(err, errBusy), errors.Is(err, stet.ErrCorrupt), errors.Is(err, stet.ErrNotFound):
					return true, nil
				case err != nil:
					return false, err
				}
				r.AsOf = now
				counts = r.Version == e.version && q.Matches(&r.Head)
			}
			if counts {
				n++
			}
			return q.Limit <= 0 || n < q.Limit, nil
		})
		return n, err
	})
}
