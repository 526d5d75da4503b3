package memstore

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/walk"
)

// history is a ring of the latest changes that had a note. A change keeps its number: the n-th,
// from 0, is at place n modulo max.
type history struct {
	max int

	mu      sync.Mutex
	changes []stet.Change
	made    int // changes ever
	trimmed int // changes ever, of which no later one was trimmed
}

// oldest is the number of the first change that is there.
func (h *history) oldest() int { return max(h.trimmed, h.made-len(h.changes)) }

func (h *history) at(n int) *stet.Change { return &h.changes[n%h.max] }

// add is called under the lock of the record's shard, so that the changes of a record stay in
// order.
func (h *history) add(c stet.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.changes) < h.max {
		h.changes = append(h.changes, c)
	} else {
		h.changes[h.made%h.max] = c
	}
	h.made++
}

// History implements [stet.Historian] for the latest [Config.MaxHistory] changes.
func (s *Store) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	h := &s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	from := h.made
	if q.After != "" {
		if from, err = strconv.Atoi(q.After); err != nil || from < 0 || from > h.made {
			return nil, "", fmt.Errorf("memstore: %q is no cursor", q.After)
		}
	}
	page := walk.Page[stet.Change, int]{Most: q.Bound(), Look: maxLook}
	for n := from - 1; n >= h.oldest(); n-- { // the latest first
		if c := h.at(n); !page.Add(n, *c, q.Matches(c)) {
			break
		}
	}
	return page.Rows, page.Next(strconv.Itoa), nil
}

// maxLook is how many changes a page reads. During that time it holds the lock that every change
// with a note needs.
const maxLook = 1000

// Append implements [stet.Historian].
func (s *Store) Append(ctx context.Context, c stet.Change) error {
	if err := cmp.Or(ctx.Err(), s.unusable); err != nil {
		return err
	}
	c.From, c.To, c.At = 0, 0, instant(s.now())
	s.history.add(c)
	return nil
}

// Trim implements [stet.Forgetter].
func (s *Store) Trim(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	if err := cmp.Or(ctx.Err(), s.unusable); err != nil {
		return 0, err
	}
	before := instant(s.now()).Add(-age)
	h := &s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.trimmed = h.oldest(); n < limit && h.trimmed < h.made && !h.at(h.trimmed).At.After(before); n++ {
		*h.at(h.trimmed) = stet.Change{}
		h.trimmed++
	}
	return n, nil
}

// Erase implements [stet.Forgetter].
func (s *Store) Erase(ctx context.Context, q stet.HistoryQuery) (n int, err error) {
	if err := cmp.Or(ctx.Err(), s.unusable, q.Erasable()); err != nil {
		return 0, err
	}
	h := &s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := h.oldest(); n < q.Bound() && i < h.made; i++ {
		if c := h.at(i); q.Matches(c) {
			*c = c.Erased()
			n++
		}
	}
	return n, nil
}
