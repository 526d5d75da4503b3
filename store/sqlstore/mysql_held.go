package sqlstore

import (
	"context"
	"sync"
	"time"

	"github.com/stet-dev/stet"
)

// heldFor is how long a row that somebody held is kept out of the groups: each would be undone for its sake.
const heldFor = time.Second

// held remembers rows that other transactions held a moment ago.
type held struct {
	mu    sync.Mutex
	until map[stet.ID]time.Time
}

func (h *held) add(id stet.ID) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, t := range h.until {
		if now.After(t) {
			delete(h.until, id)
		}
	}
	if h.until == nil {
		h.until = map[stet.ID]time.Time{}
	}
	h.until[id] = now.Add(heldFor)
}

func (h *held) has(id stet.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.until[id]
	return ok && time.Now().Before(t)
}

// askMySQL is an error where another transaction holds the row, also one that is not committed yet. It waits for nobody.
func askMySQL(ctx context.Context, c *lane, id stet.ID) error {
	q := about(c).Add("SELECT `version` FROM stet_records WHERE ").Whose(id).Add(" FOR UPDATE NOWAIT")
	rows, err := query(ctx, c, q)
	if err != nil {
		return fault(err)
	}
	defer rows.Close()
	for rows.Next() { // it is enough that there was no error
		continue
	}
	return fault(rows.Err())
}
