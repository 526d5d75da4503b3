package memstore

import "sync"

// index finds records by something else than their ID: a tag, or a downstream name. Nearly always one record has a key; others holds
// those that have the same. A key or a record that changes is moved under the lock of the record's shard.
type index[K, V comparable] struct {
	mu     sync.Mutex
	first  map[K]V
	others map[K]map[V]struct{}
}

func (x *index[K, V]) add(key K, v V) {
	x.mu.Lock()
	defer x.mu.Unlock()
	first, taken := x.first[key]
	switch {
	case !taken:
		if x.first == nil {
			x.first, x.others = make(map[K]V), make(map[K]map[V]struct{})
		}
		x.first[key] = v
	case first == v:
	case x.others[key] == nil:
		x.others[key] = map[V]struct{}{v: {}}
	default:
		x.others[key][v] = struct{}{}
	}
}

func (x *index[K, V]) remove(key K, v V) {
	x.mu.Lock()
	defer x.mu.Unlock()
	others := x.others[key]
	delete(others, v)
	if x.first[key] == v {
		delete(x.first, key)
		for next := range others {
			x.first[key] = next
			delete(others, next)
			break
		}
	}
	if len(others) == 0 {
		delete(x.others, key)
	}
}

// find returns the records that have a key, most of them at most, in no order.
func (x *index[K, V]) find(key K, most int) (all []V) {
	x.mu.Lock()
	defer x.mu.Unlock()
	first, taken := x.first[key]
	if !taken {
		return nil
	}
	all = append(all, first)
	for v := range x.others[key] {
		if len(all) == most {
			break
		}
		all = append(all, v)
	}
	return all
}
