package pgstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Due returns the Heads whose DueAt has passed, earliest first. Records that cannot be read are left out. While a backlog fills
// one answer after the other, what becomes due before what the last one began with may be missing for a second: see [fronts].
func (s *Store) Due(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	if err = s.calls.enter(); err == nil {
		defer s.calls.leave()
		heads, err = s.due(ctx, q)
	}
	return heads, next, s.wrap("due", err)
}

// due walks on from where the walk before found the first record, and where that leads to the end, once more from the beginning.
func (s *Store) due(ctx context.Context, q stet.Query) ([]stet.Head, error) {
	if q.Scope != "" || q.Route != "" || q.Failed || q.Succeeded || q.OlderThan > 0 { // passes over records that others want
		heads, _, err := due(ctx, s.pool, q, 0)
		return heads, err
	}
	which := setOf(&q)
	f := s.fronts.get(which)
	heads, found, err := due(ctx, s.pool, q, f.from)
	if err == nil && found < limit(q.Limit) && f.from > 0 {
		f = newFront()
		heads, found, err = due(ctx, s.pool, q, 0)
	}
	if err != nil {
		return nil, err
	}
	if f.from = 0; found == limit(q.Limit) && len(heads) > 0 {
		f.from = heads[0].DueAt.UnixMicro()
	}
	s.fronts.set(which, f)
	return heads, nil
}

// due walks the index of each state from an instant on, and merges: whose records are not asked for are not passed over one by one. found
// counts what cannot be read, too.
//
// The server chooses its plan by statistics, which know nothing of what has just piled up: by them a backlog of a million is a handful
// of rows, to be read and sorted all together for the first hundred. Hence the second LIMIT of a walk. It cuts nothing off, but its
// number is one that the planner cannot see; it then expects a tenth of the rows to be wanted, and walks in order.
func due(ctx context.Context, pool Querier, q stet.Query, from int64) (heads []stet.Head, found int, err error) {
	c := &condition{}
	limit := strconv.Itoa(limit(q.Limit))
	var walks []string
	for _, st := range statesOf(&q) {
		q.States = []stet.State{st}
		c.parts = nil
		c.choose(&q)
		c.and("due_at >= ? AND due_at <= (SELECT now FROM t)", from)
		walks = append(walks, "(SELECT s.* FROM (SELECT s.* FROM stet_records s"+c.where()+" ORDER BY due_at LIMIT "+limit+") s LIMIT (SELECT "+limit+"))")
	}
	sql := "WITH t AS MATERIALIZED (SELECT " + sqltext.PostgresNow + " AS now) SELECT s.id, t.now, " + sqltext.PostgresHead +
		" FROM t, (" + strings.Join(walks, " UNION ALL ") + ") s ORDER BY due_at, id LIMIT " + limit
	err = eachHead(ctx, pool, sql, c.args, func(_ int64, h *stet.Head) {
		if found++; h != nil {
			heads = append(heads, *h)
		}
	})
	return heads, found, err
}

// set is a set of states, one bit each.
type set uint8

func setOf(q *stet.Query) (all set) {
	for _, st := range statesOf(q) {
		all |= 1 << st
	}
	return all
}

// statesOf are the states that q asks for, each once.
func statesOf(q *stet.Query) []stet.State {
	if len(q.States) == 0 {
		return []stet.State{stet.Running, stet.Completed, stet.Retryable, stet.Unknown, stet.Expired}
	}
	return slices.Compact(slices.Sorted(slices.Values(q.States)))
}

// frontFor is how long walks go on from where others led, before one starts from the very beginning.
const frontFor = time.Second

// fronts remembers where the first record that is due was found. What the index has before that was dealt with a moment ago; its
// entries stay until the server vacuums, and walks that began there would pass over all of them, each over more.
//
// Records do become due there after all, though rarely: they come from a transaction that took long, or the server's clock was set
// back. They are found by the next walk from the very beginning, which is at hand: after [frontFor], or as soon as one from
// further on finds less than it was asked for.
type fronts struct {
	mu sync.Mutex
	of map[set]front
}

// front is where to begin, in microseconds since 1970, and until when that is to be believed.
type front struct {
	from  int64
	until time.Time
}

// newFront is the very beginning.
func newFront() front { return front{until: time.Now().Add(frontFor)} }

func (f *fronts) get(which set) front {
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := f.of[which]; time.Now().Before(got.until) {
		return got
	}
	return newFront()
}

func (f *fronts) set(which set, to front) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[set]front{}
	}
	f.of[which] = to
}
