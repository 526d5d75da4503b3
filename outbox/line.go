package outbox

import (
	"context"
	"database/sql"

	"github.com/stet-dev/stet/internal/sqltx"
	"github.com/stet-dev/stet/store/sqlstore"
)

// The messages of one order key form a line, and only the first of a line can be claimed. A claim
// must find it without reading the messages behind it, and there may be many while the first one is
// dead. So the column behind says what a message waits for:
//
//	unsorted  it was added with an order key, or was woken; a worker has to sort it
//	first     nothing is before it, or it has no order key; claims read only these
//	an id     the last message before it in its line that is not over
//
// Add cannot sort. A message that it found could end before its transaction commits, and the new
// message would then wait for ever. A lock against that would delay a delivery for as long as the
// caller's transaction lasts. Workers sort soon afterwards.
//
// No wake is lost. Before sort puts a message behind another, it locks the other and checks that it
// is not over. A transaction that ends the other has either committed before, and then the message
// stays unsorted; or it waits for the lock, and then wake finds the message, because wake looks in
// the same transaction after the end is written.
const (
	unsorted = -1
	first    = 0
)

// sort puts unsorted messages that are due into their lines, and returns their number.
func (b *Box) sort(ctx context.Context, db *sql.DB) (moved int64, err error) {
	if b.q.dialect == sqlstore.MySQL {
		moved, err = b.sortMySQL(ctx, db)
	} else {
		moved, err = affected(db.ExecContext(ctx, b.q.sort, maxWalk))
	}
	if err != nil {
		return 0, failed("order", err)
	}
	return moved, nil
}

// end runs change, which ends messages and returns their ids, and wakes the messages behind them,
// in one transaction.
func (b *Box) end(ctx context.Context, db *sql.DB, change func(tx *sql.Tx) ([]int64, error)) error {
	var options *sql.TxOptions // SQLite runs one writing transaction at a time
	if b.q.dialect != sqlstore.SQLite {
		// wake must see what was committed after change began.
		options = &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return sqltx.Do(ctx, db, options, func(tx *sql.Tx) error {
		ended, err := change(tx)
		if err != nil {
			return err
		}
		return b.wake(ctx, tx, ended)
	})
}

// wake makes the messages unsorted that wait behind messages which tx has ended.
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

// mend repairs lines that a change by hand has broken: messages that wait behind one that is over
// or gone become unsorted. It examines some of those that wait behind an id above after, and
// returns where the next call goes on; 0 means from the start.
func (b *Box) mend(ctx context.Context, db *sql.DB, after int64) (next int64, err error) {
	all, err := grid(db.QueryContext(ctx, b.q.waiting, after, maxWalk))
	if err != nil {
		return after, failed("order", err)
	}
	var lost []int64
	for _, w := range all {
		if w[2] == 0 {
			lost = append(lost, w[0])
		}
	}
	if len(lost) > 0 {
		if _, err := db.ExecContext(ctx, fill(b.q.woken, lost)); err != nil {
			return after, failed("order", err)
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
