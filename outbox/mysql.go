package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// MySQL has no UPDATE that returns rows, and none that skips locked rows. What is one statement in
// the other dialects is a transaction here: it selects rows, and then changes them by their ids.

// pickMySQL calls then with the ids that the query selects, unless there are none. The isolation is
// read committed, because it does not lock the gaps into which others insert.
func (b *Box) pickMySQL(
	ctx context.Context, db *sql.DB, pick string, args []any, then func(tx *sql.Tx, ids []int64) error,
) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback() // has no effect after a commit
	ids, err := numbers(tx.QueryContext(ctx, pick, args...))
	if err != nil || len(ids) == 0 {
		return err
	}
	if err := then(tx, ids); err != nil {
		return err
	}
	return tx.Commit()
}

func (b *Box) claimMySQL(
	ctx context.Context, db *sql.DB, version int64, lease time.Duration, n int,
) (all []Stored, err error) {
	err = b.pickMySQL(ctx, db, b.q.pick, []any{n}, func(tx *sql.Tx, ids []int64) error {
		if _, err := tx.ExecContext(ctx, fill(b.q.take, ids), version, lease.Microseconds()); err != nil {
			return err
		}
		all, err = b.q.all(tx.QueryContext(ctx, fill(b.q.get, ids)))
		return err
	})
	return all, err
}

func (b *Box) lapseMySQL(ctx context.Context, db *sql.DB, args []any) error {
	return b.pickMySQL(ctx, db, b.q.lapsed, []any{maxWalk}, func(tx *sql.Tx, ids []int64) error {
		_, err := tx.ExecContext(ctx, fill(b.q.lapse, ids), args...)
		return err
	})
}

func (b *Box) sortMySQL(ctx context.Context, db *sql.DB) (moved int64, err error) {
	err = b.pickMySQL(ctx, db, b.q.unsorted, []any{maxWalk}, func(tx *sql.Tx, ids []int64) error {
		behind, err := grid(tx.QueryContext(ctx, fill(b.q.before, ids)))
		if err != nil {
			return err
		}
		var before []int64
		for _, e := range behind {
			before = append(before, e[1])
		}
		live := map[int64]bool{0: true}
		locked, err := numbers(tx.QueryContext(ctx, fill(b.q.live, before)))
		if err != nil {
			return err
		}
		for _, id := range locked {
			live[id] = true
		}
		var which []int64
		var cases strings.Builder
		for _, e := range behind {
			if live[e[1]] {
				which = append(which, e[0])
				fmt.Fprintf(&cases, " WHEN %d THEN %d", e[0], e[1])
			}
		}
		if moved = int64(len(which)); moved == 0 {
			return nil
		}
		_, err = tx.ExecContext(ctx, strings.Replace(fill(b.q.sort, which), "CASES", cases.String(), 1))
		return err
	})
	return moved, err
}

// removeMySQL deletes those messages of the stretch that no other transaction has locked. A DELETE
// of the whole stretch would lock all of it and wait for open transactions, while deliveries wait
// for the DELETE until their leases end. A message that is over stays over, so that it can be found
// without a lock.
func (b *Box) removeMySQL(ctx context.Context, db *sql.DB, args []any) (n int64, err error) {
	ids, err := numbers(db.QueryContext(ctx, b.q.over, args...))
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	err = b.pickMySQL(ctx, db, fill(b.q.free, ids), nil, func(tx *sql.Tx, ids []int64) (err error) {
		n, err = affected(tx.ExecContext(ctx, fill(b.q.reap, ids)))
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
