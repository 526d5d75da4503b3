package rest

import "sync"

// Rooms are where goroutines wait for something to change, each in the room of what it waits for.
// The zero value is ready to use. It is safe for concurrent use.
type Rooms[K comparable] struct {
	mu sync.Mutex
	of map[K]*room
}

type room struct {
	rung chan struct{}
	in   int
}

// Enter returns a channel that is closed at the next change. The caller has to look after that:
// only what changes from then on rings. leave has to be called once.
func (r *Rooms[K]) Enter(key K) (rung <-chan struct{}, leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.of[key]
	if own == nil {
		own = &room{rung: make(chan struct{})}
		if r.of == nil {
			r.of = map[K]*room{}
		}
		r.of[key] = own
	}
	own.in++
	return own.rung, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if own.in--; own.in == 0 && r.of[key] == own {
			delete(r.of, key)
		}
	}
}

// Ring wakes those in a room.
func (r *Rooms[K]) Ring(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own := r.of[key]; own != nil {
		close(own.rung)
		delete(r.of, key)
	}
}

// RingAll wakes those in all rooms.
func (r *Rooms[K]) RingAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, own := range r.of {
		close(own.rung)
	}
	clear(r.of)
}
