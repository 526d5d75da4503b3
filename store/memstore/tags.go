package memstore

import (
	"slices"
	"sync"

	"github.com/stet-dev/stet/internal/tag"
)

// tags says where the record of each tag is: by the hash of its ID. Tags are hashes themselves, so that a tag is next to never had by
// two; further holds the others. Who changes it holds the lock of the record's shard.
type tags struct {
	mu      sync.Mutex
	first   map[uint64]uint64
	further map[uint64][]uint64
}

// tag files a record with the hash h under its tag, if it has one.
func (s *Store) tag(e *entry, h uint64) {
	if e.flags&tagged == 0 {
		return
	}
	t := &s.tags[e.tag%shards]
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == nil {
		t.first = make(map[uint64]uint64)
	}
	if _, taken := t.first[e.tag]; !taken {
		t.first[e.tag] = h
		return
	}
	if t.further == nil {
		t.further = make(map[uint64][]uint64)
	}
	t.further[e.tag] = append(t.further[e.tag], h)
}

// untag is the inverse of tag.
func (s *Store) untag(e *entry, h uint64) {
	if e.flags&tagged == 0 {
		return
	}
	t := &s.tags[e.tag%shards]
	t.mu.Lock()
	defer t.mu.Unlock()
	more := t.further[e.tag]
	switch i := slices.Index(more, h); {
	case i >= 0:
		more = slices.Delete(more, i, i+1)
	case len(more) > 0:
		t.first[e.tag], more = more[0], more[1:]
	default:
		delete(t.first, e.tag)
		return
	}
	if t.further[e.tag] = more; len(more) == 0 {
		delete(t.further, e.tag)
	}
}

// bearing returns the hashes of the records with a tag.
func (s *Store) bearing(text string) []uint64 {
	n, ok := tag.Parse(text)
	if !ok {
		return nil
	}
	t := &s.tags[n%shards]
	t.mu.Lock()
	defer t.mu.Unlock()
	first, ok := t.first[n]
	if !ok {
		return nil
	}
	all := append([]uint64{first}, t.further[n]...)
	slices.Sort(all)
	return slices.Compact(all)
}
