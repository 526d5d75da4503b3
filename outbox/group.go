package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"
)

// maxGroup bounds how many messages a statement settles: SQLite takes 32,766 values, and nobody gains from more than this.
const maxGroup = 128

// group settles messages that were delivered, many at a time: what comes while one statement is under way goes with the next,
// and nobody waits for company. Other outcomes are rare, and written one by one.
type group struct {
	box   *Box
	db    *sql.DB
	limit time.Duration // for a statement

	mu      sync.Mutex
	waiting []ending
	busy    bool
}

type ending struct {
	c     *claimed
	ended chan<- error
}

// done settles the message as delivered. [ErrLost] if the claim does not hold it any more.
func (g *group) done(ctx context.Context, c *claimed) error {
	ended := make(chan error, 1)
	g.mu.Lock()
	g.waiting = append(g.waiting, ending{c, ended})
	if !g.busy {
		g.busy = true
		go g.write(context.WithoutCancel(ctx))
	}
	g.mu.Unlock()
	return <-ended
}

// write settles what waits, until nothing does.
func (g *group) write(ctx context.Context) {
	for {
		g.mu.Lock()
		n := min(len(g.waiting), maxGroup)
		batch := g.waiting[:n:n]
		g.waiting = g.waiting[n:]
		g.busy = n > 0
		g.mu.Unlock()
		if n == 0 {
			return
		}
		call, cancel := context.WithTimeout(ctx, g.limit)
		settled, err := g.settle(call, batch)
		cancel()
		for _, e := range batch {
			if err == nil && !settled(e.c.ID) {
				e.ended <- ErrLost
			} else {
				e.ended <- err
			}
		}
	}
}

// settle returns which messages of the batch are settled by it, or were by one before it whose answer was lost.
func (g *group) settle(ctx context.Context, batch []ending) (settled func(id int64) bool, err error) {
	res, err := g.db.ExecContext(ctx, g.box.q.many(g.box.q.done, len(batch)), pairs(batch, 0)...)
	if err != nil {
		return nil, fmt.Errorf("outbox: settle: %w", err)
	}
	switch n, err := res.RowsAffected(); {
	case err != nil:
		return nil, fmt.Errorf("outbox: settle: %w", err)
	case n == int64(len(batch)):
		return func(int64) bool { return true }, nil
	}
	// The next version and done: nothing but this can have made that of the claim's version.
	rows, err := g.db.QueryContext(ctx, g.box.q.many(g.box.q.isDone, len(batch)), pairs(batch, 1)...)
	if err != nil {
		return nil, fmt.Errorf("outbox: settle: %w", err)
	}
	defer rows.Close()
	all := map[int64]bool{}
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("outbox: settle: %w", err)
		}
		all[id] = true
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("outbox: settle: %w", err)
	}
	return func(id int64) bool { return all[id] }, nil
}

// pairs are the arguments of many: the ids, for the index, and then each id with its version.
func pairs(batch []ending, add int64) []any {
	args := make([]any, 0, 3*len(batch))
	for _, e := range batch {
		args = append(args, e.c.ID)
	}
	for _, e := range batch {
		args = append(args, e.c.ID, e.c.version+add)
	}
	return args
}

// many writes the places of n messages into a statement.
func (s *statements) many(q string, n int) string {
	i := 0
	list := func(n int, one func() string) string {
		all := make([]string, n)
		for j := range all {
			all[j] = one()
		}
		return strings.Join(all, ", ")
	}
	place := func() string { i++; return s.place(i) }
	ids := list(n, place)
	versions := list(n, func() string { return "(" + place() + ", " + place() + ")" })
	return strings.NewReplacer("IDS", ids, "VERSIONS", versions).Replace(q)
}
