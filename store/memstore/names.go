package memstore

import (
	"context"
	"math"
	"slices"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tag"
)

// names returns the names that systems further down have for e; those it has not are "".
func (e *entry) names() (n [2]string) {
	if e.rare != nil {
		n = e.rare.names
	}
	return n
}

// rename takes the record of id from the names it had to those it has. Few records have names.
func (s *Store) rename(id stet.ID, had, has [2]string) {
	if had == has {
		return
	}
	for _, name := range has {
		if name != "" {
			s.names.add(name, id)
		}
	}
	for _, name := range had {
		if name != "" && !slices.Contains(has[:], name) {
			s.names.remove(name, id)
		}
	}
}

// Find implements [stet.Finder], in no order. It costs nothing for the records that have no
// downstream names.
func (s *Store) Find(ctx context.Context, scope stet.Scope, name string) ([]stet.Head, error) {
	if err := ctx.Err(); err != nil || name == "" {
		return nil, err
	}
	ids := s.names.find(name, math.MaxInt)
	ids = slices.DeleteFunc(ids, func(id stet.ID) bool { return scope != "" && id.Scope != scope })
	var found []stet.Head
	for _, h := range s.heads(ids[:min(len(ids), stet.DefaultLimit)], s.now()) {
		if h.DownstreamKey == name || h.DownstreamID == name { // it may have changed since
			found = append(found, h)
		}
	}
	return found, nil
}

// tag files a record with the hash h under its tag, if it has one.
func (s *Store) tag(e *entry, h uint64) {
	if e.flags&tagged != 0 {
		s.tags[e.tag%shards].add(e.tag, h)
	}
}

// untag is the inverse of tag.
func (s *Store) untag(e *entry, h uint64) {
	if e.flags&tagged != 0 {
		s.tags[e.tag%shards].remove(e.tag, h)
	}
}

// bearing returns the hashes of the records with a tag.
func (s *Store) bearing(text string) []uint64 {
	n, ok := tag.Parse(text)
	if !ok {
		return nil
	}
	return s.tags[n%shards].find(n, math.MaxInt)
}
