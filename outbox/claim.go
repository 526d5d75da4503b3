package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet/store/sqlstore"
)

// maxWalk bounds how many messages one statement of a worker looks at, but for those it takes.
const maxWalk = 500

// lapse settles messages whose worker is gone: it cannot be known what became of the attempt. Where
// another may follow (to is Pending) none does after so many attempts. Rows that another
// transaction holds are passed by, until the next time.
func (b *Box) lapse(ctx context.Context, db *sql.DB, to State, attempts int) (err error) {
	if to != Pending {
		attempts = math.MaxInt32
	}
	note := line("unknown: the lease ended")
	args := []any{note, note, attempts, string(to), newVersion()}
	if b.q.dialect == sqlstore.MySQL {
		err = b.lapseMySQL(ctx, db, args)
	} else {
		_, err = db.ExecContext(ctx, b.q.lapse, append(args, maxWalk)...)
	}
	if err != nil {
		return fmt.Errorf("outbox: lapsed leases: %w", err)
	}
	return nil
}

// claim takes at most n messages that are due, under the version. Of one order key there is only
// one that can be taken: see line.go. After an error it may have taken some nevertheless: see
// takeBack.
func (b *Box) claim(
	ctx context.Context, db *sql.DB, version int64, lease time.Duration, n int,
) (all []Stored, err error) {
	if b.q.dialect == sqlstore.MySQL {
		all, err = b.claimMySQL(ctx, db, version, lease, n)
	} else {
		all, err = b.q.all(db.QueryContext(ctx, b.q.take, version, lease.Microseconds(), n))
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: claim: %w", err)
	}
	return all, nil
}

// grid reads rows of numbers; what is none, in a damaged row, is 0.
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

// numbers reads rows of one number.
func numbers(rows *sql.Rows, err error) ([]int64, error) {
	lines, err := grid(rows, err)
	all := make([]int64, len(lines))
	for i, l := range lines {
		all[i] = l[0]
	}
	return all, err
}

// fill writes numbers into a statement.
func fill(q string, ids []int64) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = strconv.FormatInt(id, 10)
	}
	return strings.ReplaceAll(q, "IDS", strings.Join(list, ", "))
}
