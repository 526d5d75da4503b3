package outbox

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet/store/sqlstore"
)

// maxWalk bounds how many messages one statement of a worker examines. A claim has a limit of its
// own: the number of free places.
const maxWalk = 500

// lapse ends the attempts whose lease has ended: their worker is gone, and whether the effect
// happened is not known. The message is Unknown, or waits for another attempt if its key is
// honoured; if it has used up its attempts it is Dead then. Rows that another transaction has
// locked are left for the next call.
func (b *Box) lapse(ctx context.Context, db *sql.DB, attempts int) (err error) {
	note := line("unknown: the lease ended")
	args := []any{note, note, attempts, newVersion()}
	if b.q.dialect == sqlstore.MySQL {
		err = b.lapseMySQL(ctx, db, args)
	} else {
		_, err = db.ExecContext(ctx, b.q.lapse, append(args, maxWalk)...)
	}
	return failed("lapsed leases", err)
}

// claim takes at most n messages that are due, and gives them the version. Only the first message
// of an order key can be taken: see line.go. If claim returns an error, it may still have taken
// some messages: see takeBack.
func (b *Box) claim(
	ctx context.Context, db *sql.DB, version int64, lease time.Duration, n int,
) (all []Stored, err error) {
	if b.q.dialect == sqlstore.MySQL {
		all, err = b.claimMySQL(ctx, db, version, lease, n)
	} else {
		all, err = b.q.all(db.QueryContext(ctx, b.q.take, version, lease.Microseconds(), n))
	}
	if err != nil {
		return nil, failed("claim", err) // what was read is not certain: see takeBack
	}
	return all, nil
}

// grid reads rows of numbers. A value of a damaged row that is not a number becomes 0.
func grid(rows *sql.Rows, err error) (all [][]int64, _ error) {
	err = each(rows, err, func(values []any) {
		line := make([]int64, len(values))
		for i, v := range values {
			line[i], _ = number(v)
		}
		all = append(all, line)
	})
	return all, err
}

// numbers reads rows that have one number each.
func numbers(rows *sql.Rows, err error) ([]int64, error) {
	lines, err := grid(rows, err)
	all := make([]int64, len(lines))
	for i, l := range lines {
		all[i] = l[0]
	}
	return all, err
}

// fill replaces IDS in a statement by a list of numbers.
func fill(q string, ids []int64) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = strconv.FormatInt(id, 10)
	}
	return strings.ReplaceAll(q, "IDS", strings.Join(list, ", "))
}
