package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet/store/sqlstore"
)

// lapse settles the messages whose worker is gone: nobody knows what became of the attempt.
func (b *Box) lapse(ctx context.Context, db *sql.DB, to State) error {
	note := line("unknown: the lease ended")
	if _, err := db.ExecContext(ctx, b.q.lapse, note, note, string(to)); err != nil {
		return fmt.Errorf("outbox: lapsed leases: %w", err)
	}
	return nil
}

// claim takes at most n messages that are due. Of one order key it never takes two.
func (b *Box) claim(ctx context.Context, db *sql.DB, lease time.Duration, n int) ([]Stored, error) {
	if b.q.dialect == sqlstore.MySQL {
		all, err := b.claimMySQL(ctx, db, lease, n)
		if err != nil {
			return nil, fmt.Errorf("outbox: claim: %w", err)
		}
		return all, nil
	}
	rows, err := db.QueryContext(ctx, b.q.take, lease.Microseconds(), n)
	if err != nil {
		return nil, fmt.Errorf("outbox: claim: %w", err)
	}
	all, err := b.q.all(rows)
	if err != nil {
		return nil, fmt.Errorf("outbox: claim: %w", err)
	}
	return all, nil
}

// claimMySQL does in a transaction what others do in a statement: there is no UPDATE that returns rows. Read committed locks no
// gaps, in which others want to insert.
func (b *Box) claimMySQL(ctx context.Context, db *sql.DB, lease time.Duration, n int) (all []Stored, err error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // nothing after a commit
	ids, err := numbers(tx.QueryContext(ctx, b.q.pick, n))
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	list := strings.Join(ids, ", ")
	if _, err := tx.ExecContext(ctx, strings.Replace(b.q.take, "IDS", list, 1), lease.Microseconds()); err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, strings.Replace(b.q.get, "IDS", list, 1))
	if err != nil {
		return nil, err
	}
	if all, err = b.q.all(rows); err != nil {
		return nil, err
	}
	return all, tx.Commit()
}

func numbers(rows *sql.Rows, err error) (all []string, _ error) {
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		all = append(all, strconv.FormatInt(id, 10))
	}
	return all, errors.Join(rows.Err(), rows.Close())
}
