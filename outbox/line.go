package outbox

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/stet-dev/stet/store/sqlstore"
)

// Messages of one order key make a line, and only its first can be taken. A claim has to find that
// one without looking at those behind it, of which there may be many, for as long as the first one
// is dead. So each message says in its column behind what it waits for:
//
//	unsorted  it was added under an order key, or has been woken: a worker has to sort it
//	first     nothing is before it, or it has no order key; claims look at no others
//	an id     the last message before it in its line that is not over
//
// Add cannot do the sorting: what it looked at might end before its transaction does, and then the
// new message would wait for ever; and a lock against that would hold up a delivery for as long as
// the caller's transaction lasts. The workers sort, in a moment.
//
// No wake is lost: sort locks the message that another is put behind, and makes sure that it is not
// over. A transaction that ends it came before, and then the other stays unsorted; or it waits for
// that lock, and then finds the other behind it, because wake looks in the same transaction after
// the end is written.
const (
	unsorted = -1
	first    = 0
)

// sort puts unsorted messages that are due into their lines, and returns how many.
func (b *Box) sort(ctx context.Context, db *sql.DB) (moved int64, err error) {
	if b.q.dialect == sqlstore.MySQL {
		moved, err = b.sortMySQL(ctx, db)
	} else {
		moved, err = affected(db.ExecContext(ctx, b.q.sort, maxWalk))
	}
	if err != nil {
		return 0, fmt.Errorf("outbox: order: %w", err)
	}
	return moved, nil
}

// end writes that messages are over, by change, and lets those behind them be looked at, all in one
// transaction. change returns the messages that it has ended.
func (b *Box) end(ctx context.Context, db *sql.DB, change func(tx *sql.Tx) ([]int64, error)) error {
	var options *sql.TxOptions // a transaction of SQLite has the file to itself
	if b.q.dialect != sqlstore.SQLite {
		// wake has to see what was committed before it, not what was before change.
		options = &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	tx, err := db.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after a commit
	ended, err := change(tx)
	if err != nil {
		return err
	}
	if err := b.wake(ctx, tx, ended); err != nil {
		return err
	}
	return tx.Commit()
}

// wake makes those unsorted that wait behind the messages, which tx has ended.
func (b *Box) wake(ctx context.Context, tx *sql.Tx, ended []int64) error {
	if len(ended) == 0 {
		return nil
	}
	behind, err := numbers(tx.QueryContext(ctx, b.q.many(b.q.behind, len(ended)), values(ended)...))
	if err != nil || len(behind) == 0 {
		return err
	}
	_, err = tx.ExecContext(ctx, b.q.many(b.q.woken, len(behind)), values(behind)...)
	return err
}

// mend looks at some of the messages that wait, those behind an id after the one it is given, and
// makes those unsorted whose message is over, or gone, although they were not woken: that takes a
// change by hand. It returns where to go on, 0 at the end.
func (b *Box) mend(ctx context.Context, db *sql.DB, after int64) (next int64, err error) {
	all, err := grid(db.QueryContext(ctx, b.q.waiting, after, maxWalk))
	if err != nil {
		return after, fmt.Errorf("outbox: order: %w", err)
	}
	var lost []int64
	for _, w := range all {
		if w[2] == 0 {
			lost = append(lost, w[0])
		}
	}
	if len(lost) > 0 {
		if _, err := db.ExecContext(ctx, fill(b.q.woken, lost)); err != nil {
			return after, fmt.Errorf("outbox: order: %w", err)
		}
	}
	if len(all) < maxWalk {
		return 0, nil
	}
	return all[maxWalk-1][1], nil
}

func values(ids []int64) []any {
	all := make([]any, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return all
}

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
