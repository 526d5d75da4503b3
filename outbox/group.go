package outbox

import (
	"context"
	"database/sql"
	"strings"

	"github.com/stet-dev/stet/internal/groupcommit"
)

// maxGroup bounds how many messages a statement settles. SQLite takes 32,766 values; larger groups
// are no faster.
const maxGroup = 128

// ending is a delivered message that waits to be settled with others: see package groupcommit.
// Other outcomes are rare, and are written one at a time.
type ending struct {
	groupcommit.Call
	c *claimed
}

// done settles the message as delivered. The error is [ErrLost] if the claim no longer holds it.
func (r *run) done(c *claimed) error {
	return r.endings.Do(&ending{groupcommit.Call{Ctx: context.WithoutCancel(r.work)}, c})
}

// doneMany settles a batch in one statement. A message is settled also if an earlier call whose
// answer was lost did that.
func (r *run) doneMany(_ context.Context, batch []*ending) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.work), r.Lease/3)
	defer cancel()
	all := make([]*claimed, len(batch))
	var ordered []int64
	for i, e := range batch {
		if all[i] = e.c; e.c.OrderKey != "" {
			ordered = append(ordered, e.c.ID)
		}
	}
	var n int64
	write := func(q Execer) (err error) {
		n, err = affected(q.ExecContext(ctx, r.box.q.many(r.box.q.done, len(all)), pairs(all, 0)...))
		return err
	}
	var err error
	if len(ordered) == 0 {
		err = write(r.DB)
	} else { // a message that is not settled may wake others too soon, which are then sorted again
		err = r.box.end(ctx, r.DB, func(tx *sql.Tx) ([]int64, error) { return ordered, write(tx) })
	}
	var own map[int64]bool
	whole := n == int64(len(batch))
	switch {
	case err != nil:
		return failed("settle", err)
	case !whole:
		if own, err = r.box.mine(ctx, r.DB, all...); err != nil {
			return err
		}
	}
	for _, e := range batch {
		if e.Err = nil; !whole && !own[e.c.ID] {
			e.Err = ErrLost
		}
	}
	return nil
}

// pairs returns the arguments of many: all ids, for the index, and then each id with its version.
func pairs(all []*claimed, add int64) []any {
	args := make([]any, 0, 3*len(all))
	for _, c := range all {
		args = append(args, c.ID)
	}
	for _, c := range all {
		args = append(args, c.ID, c.Version+add)
	}
	return args
}

// many puts placeholders for n messages into a statement.
func (s *statements) many(q string, n int) string {
	list := func(one string) string { return strings.Repeat(", "+one, n)[2:] }
	return s.end(strings.NewReplacer("IDS", list("?"), "VERSIONS", list("(?, ?)")).Replace(q))
}
