package outbox

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/stet-dev/stet/internal/groupcommit"
)

// maxGroup bounds how many messages a statement settles. SQLite takes 32,766 values; larger groups
// are no faster.
const maxGroup = 128

// group settles delivered messages, many in one statement: see package groupcommit. Other outcomes
// are rare, and are written one at a time.
type group struct {
	box   *Box
	db    *sql.DB
	ctx   context.Context
	limit time.Duration // for a statement
	queue *groupcommit.Queue[*ending]
}

type ending struct {
	groupcommit.Call
	c *claimed
}

func newGroup(ctx context.Context, box *Box, db *sql.DB, limit time.Duration) *group {
	g := &group{box: box, db: db, ctx: context.WithoutCancel(ctx), limit: limit}
	g.queue = groupcommit.New(groupcommit.Config[*ending]{Many: g.many, Groups: 1, MaxGroup: maxGroup})
	return g
}

// done settles the message as delivered. The error is [ErrLost] if the claim no longer holds it.
func (g *group) done(c *claimed) error {
	return g.queue.Do(&ending{groupcommit.Call{Ctx: g.ctx}, c})
}

func (g *group) many(_ context.Context, batch []*ending) error {
	ctx, cancel := context.WithTimeout(g.ctx, g.limit)
	defer cancel()
	settled, err := g.settle(ctx, batch)
	if err != nil {
		return err
	}
	for _, e := range batch {
		if e.Err = nil; !settled(e.c.ID) {
			e.Err = ErrLost
		}
	}
	return nil
}

// settle settles a batch. The function that it returns reports whether a message is settled, by
// this call or by an earlier one whose answer was lost.
func (g *group) settle(ctx context.Context, batch []*ending) (settled func(id int64) bool, err error) {
	all := make([]*claimed, len(batch))
	var ordered []int64
	for i, e := range batch {
		if all[i] = e.c; e.c.OrderKey != "" {
			ordered = append(ordered, e.c.ID)
		}
	}
	var n int64
	write := func(q Execer) (err error) {
		n, err = affected(q.ExecContext(ctx, g.box.q.many(g.box.q.done, len(all)), pairs(all, 0)...))
		return err
	}
	if len(ordered) == 0 {
		err = write(g.db)
	} else { // a message that is not settled may wake others too soon, which are then sorted again
		err = g.box.end(ctx, g.db, func(tx *sql.Tx) ([]int64, error) { return ordered, write(tx) })
	}
	switch {
	case err != nil:
		return nil, failed("settle", err)
	case n == int64(len(batch)):
		return func(int64) bool { return true }, nil
	}
	own, err := g.box.mine(ctx, g.db, all...)
	return func(id int64) bool { return own[id] }, err
}

// pairs returns the arguments of many: all ids, for the index, and then each id with its version.
func pairs(all []*claimed, add int64) []any {
	args := make([]any, 0, 3*len(all))
	for _, c := range all {
		args = append(args, c.ID)
	}
	for _, c := range all {
		args = append(args, c.ID, c.version+add)
	}
	return args
}

// many puts placeholders for n messages into a statement.
func (s *statements) many(q string, n int) string {
	list := func(one string) string { return strings.Repeat(", "+one, n)[2:] }
	return s.end(strings.NewReplacer("IDS", list("?"), "VERSIONS", list("(?, ?)")).Replace(q))
}
