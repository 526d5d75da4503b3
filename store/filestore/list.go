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

// List implements [stet.Lister]: in the order of the files' names. It reads every record up to the end of the page; a file
// that cannot be read is left out.
func (s *Store) List(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	if q.After != "" && !isName(q.After) {
		return nil, "", fmt.Errorf("filestore: list: %q is no cursor", q.After)
	}
	q.States = slices.Clone(q.States)
	p, err := work(ctx, s, "list", "", func(ctx context.Context) (p page, err error) {
		now, n := s.now(), q.Bound()
		err = s.eachRecord(ctx, q.After, func(name string) (bool, error) {
			r, err := s.get(ctx, name)
			if err != nil {
				return true, ignore(ignore(err, stet.ErrCorrupt), stet.ErrNotFound)
			}
			if r.AsOf = now; q.Matches(&r.Head) {
				p.heads = append(p.heads, r.Head)
				p.next = name
			}
			return len(p.heads) < n, nil
		})
		if len(p.heads) < n {
			p.next = ""
		}
		return p, err
	})
	return p.heads, p.next, err
}

func isName(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(s) == nameLen && hex.EncodeToString(b) == s
}

// eachRecord visits the names of all records after a name, in order, until visit reports false.
func (s *Store) eachRecord(ctx context.Context, after string, visit func(name string) (bool, error)) error {
	dirs, err := s.names(recordsDir)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if after != "" && dir < after[:2] {
			continue
		}
		files, err := s.names(recordsDir + "/" + dir)
		if err != nil {
			return err
		}
		for _, file := range files {
			name, ok := strings.CutSuffix(file, extension)
			if !ok || !isName(name) || name <= after {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if more, err := visit(name); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// Count implements [stet.Counter]. States and scope are counted by the names under due; each other filter reads the records.
// After a crash it may count what was being written once too often, until that falls due.
func (s *Store) Count(ctx context.Context, q stet.Query) (int, error) {
	q.States = slices.Clone(q.States)
	byName := q.Route == "" && !q.Failed && !q.Succeeded && q.OlderThan == 0 && q.NewerThan == 0
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
