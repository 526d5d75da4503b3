package memstore

import (
	"context"
	"sync"

	"github.com/stet-dev/stet"
)

// names are what systems further down call the effects of records. Only records that have such names are in it. Who changes
// it holds the lock of the record's shard.
type names struct {
	mu sync.Mutex
	of map[string]bearers
}

// bearers are the records of one name: nearly always one.
type bearers struct {
	first  stet.ID
	others map[stet.ID]struct{}
}

// names returns the names of e; those it has not are "".
func (e *entry) names() (n [2]string) {
	if e.rare != nil {
		n = e.rare.names
	}
	return n
}

// rename takes the record of id from the names it had to those it has.
func (n *names) rename(id stet.ID, had, has [2]string) {
	if had == has {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range had {
		n.remove(name, id)
	}
	for _, name := range has {
		n.add(name, id)
	}
}

func (n *names) add(name string, id stet.ID) {
	if name == "" {
		return
	}
	b, taken := n.of[name]
	switch {
	case !taken:
		b.first = id
	case b.first == id: // both names are one
	case b.others == nil:
		b.others = map[stet.ID]struct{}{id: {}}
	default:
		b.others[id] = struct{}{}
	}
	if n.of == nil {
		n.of = make(map[string]bearers)
	}
	n.of[name] = b
}

func (n *names) remove(name string, id stet.ID) {
	b, taken := n.of[name]
	switch {
	case !taken:
		return
	case b.first != id:
		delete(b.others, id)
		return
	}
	for next := range b.others {
		b.first = next
		delete(b.others, next)
		n.of[name] = b
		return
	}
	delete(n.of, name)
}

// bearers returns the records of a name, so many at most.
func (n *names) bearers(name string, most int) []stet.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	b, taken := n.of[name]
	if !taken {
		return nil
	}
	ids := []stet.ID{b.first}
	for id := range b.others {
		if len(ids) == most {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

// Find implements [stet.Finder], in no order. It costs nothing for the records that have no downstream names.
func (s *Store) Find(ctx context.Context, name string) ([]stet.Head, error) {
	if err := ctx.Err(); err != nil || name == "" {
		return nil, err
	}
	var found []stet.Head
	for _, h := range s.heads(s.names.bearers(name, stet.DefaultLimit), s.now()) {
		if h.DownstreamKey == name || h.DownstreamID == name { // it may have changed since
			found = append(found, h)
		}
	}
	return found, nil
}
