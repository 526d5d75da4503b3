package filestore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
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
		p.Most, p.Look = q.Bound(), look
		now := s.now()
		names := s.records(ctx, q.After, q.Oldest)
		switch {
		case q.Tag != "":
			tagged, err := s.tagged(ctx, q.Tag)
			if err != nil {
				return p, err
			}
			names = each(ctx, tagged, q.After, q.Oldest)
		case q.Scope != "" && q.Key != "":
			names = each(ctx, []string{nameOf(stet.ID{Scope: q.Scope, Key: q.Key}) + extension}, q.After, q.Oldest)
		}
		for name, err := range names {
			if err != nil || !p.Takes(name) {
				return p, err
			}
			r, err := s.get(ctx, name, 0)
			switch {
			case errors.Is(err, stet.ErrCorrupt), errors.Is(err, stet.ErrNotFound):
				continue
			case err != nil:
				return p, err
			}
			if r.AsOf = now; q.Matches(&r.Head) {
				p.Rows = append(p.Rows, r.Head)
			}
		}
		return p, nil
	})
	if err != nil {
		return nil, "", err
	}
	return p.Rows, p.Next(itself), nil
}

// tagged returns the files of the records with a tag, from the names under due. A record that is
// written meanwhile moves, maybe from a directory that was not read yet to one that was. Therefore
// a second try follows when nothing is found.
func (s *Store) tagged(ctx context.Context, tag string) (files []string, err error) {
	for try := 0; len(files) == 0 && try < 2; try++ {
		for e, err := range s.entries(ctx, "", neverBucket) {
			switch {
			case err != nil:
				return nil, err
			case e.tag == tag:
				files = append(files, e.name+extension)
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// each goes through the names of the records in files, after one of them, in order or, if back is
// set, in reverse order. "" is before all names.
func each(ctx context.Context, files []string, after string, back bool) iter.Seq2[string, error] {
	if back {
		slices.Reverse(files)
	}
	return func(yield func(string, error) bool) {
		for _, file := range files {
			name, ok := strings.CutSuffix(file, extension)
			if !ok || !isName(name) || after != "" && (name == after || name < after != back) {
				continue
			}
			if err := ctx.Err(); !yield(name, err) || err != nil {
				return
			}
		}
	}
}

func isName(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(s) == nameLen && hex.EncodeToString(b) == s
}

// records goes through the names of all records, as each does.
func (s *Store) records(ctx context.Context, after string, back bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		dirs, err := s.names(recordsDir)
		if back {
			slices.Reverse(dirs)
		}
		for _, dir := range dirs {
			if after != "" && dir != after[:2] && dir < after[:2] != back {
				continue
			}
			var files []string
			if files, err = s.names(recordsDir + "/" + dir); err != nil {
				break
			}
			for name, err := range each(ctx, files, after, back) {
				if !yield(name, err) || err != nil {
					return
				}
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

// Count implements [stet.Counter]. States and scope are counted by the names under due; for any
// other filter the records are read. After a crash, a record that was being written may be counted
// twice until its entry falls due.
func (s *Store) Count(ctx context.Context, q stet.Query) (int, error) {
	q.States = slices.Clone(q.States)
	byName := q.Route == "" && !q.Failed && !q.Succeeded && q.OlderThan <= 0 && q.NewerThan <= 0 && !q.ByDetail()
	return work(ctx, s, "count", "", func(ctx context.Context) (n int, err error) {
		now := s.now()
		for e, err := range s.entries(ctx, "", neverBucket) {
			counts := err == nil && e.selects(&q)
			if counts && !byName {
				var r stet.Record
				r, counts, err = s.meet(e)
				r.AsOf = now
				counts = counts && q.Matches(&r.Head)
			}
			if counts {
				n++
			}
			if err != nil || q.Limit > 0 && n >= q.Limit {
				return n, err
			}
		}
		return n, nil
	})
}
