package groupcommit

import (
	"sync"
	"time"
)

const (
	heldFor = time.Second // each row that is held would undo a group for its sake
	maxHeld = 1024
)

// Held remembers for a second which rows other transactions were seen to hold, so that writes to them
// stay out of groups. It remembers at most 1,024 rows. The zero value is ready to use, and it is safe for concurrent use.
type Held[K comparable] struct {
	mu    sync.Mutex
	until map[K]time.Time
}

// Add remembers a row.
func (h *Held[K]) Add(row K) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if len(h.until) >= maxHeld {
		for r, end := range h.until {
			if now.After(end) {
				delete(h.until, r)
			}
		}
	}
	if h.until == nil {
		h.until = map[K]time.Time{}
	}
	if len(h.until) < maxHeld {
		h.until[row] = now.Add(heldFor)
	}
}

// Has reports whether a row was seen to be held within the last second.
func (h *Held[K]) Has(row K) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	end, ok := h.until[row]
	if ok && time.Now().After(end) {
		delete(h.until, row)
		return false
	}
	return ok
}
