package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// bindTime is how long a transaction may take to say which database it is on.
const bindTime = 5 * time.Second

// Bind returns the store within tx, a [*database/sql.Tx] on the same database: it is asked, once.
// The bound store waits for rows that others hold as tx's own session is set up to
// (innodb_lock_wait_timeout), no longer than the deadline of a call. Its isolation level is the
// caller's, too: where reads repeat, one that has to know what is there now takes a shared lock.
func (s *mysql) Bind(tx any) (stet.Store, error) {
	t, err := joined(tx)
	if err == nil {
		err = s.sameDatabase(t)
	}
	if err != nil {
		return nil, wrap("bind", err)
	}
	do := func(j *job) error {
		if err := s.pass(j.Ctx); err != nil {
			return err
		}
		if j.Verb == tablestore.Create {
			return createWithin(j.Ctx, t, j)
		}
		return changeMySQL(j.Ctx, t, j)
	}
	return within(t, mysqlNoSavepoint, mysqlDeadlock, tablestore.Reading{Reader: readMySQL(t), Around: around},
		tablestore.Driver[*job]{New: newJob, Pack: s.pack, Do: do, Wrap: wrap,
			Get: func(ctx context.Context, id stet.ID) (stet.Record, error) { return getMySQL(ctx, t, id, "") },
			Append: func(ctx context.Context, c *stet.Change) error {
				if err := s.pass(ctx); err != nil {
					return err
				}
				return appendMySQL(ctx, t, c)
			}})
}

// joined returns the transaction that a store is to be bound to.
func joined(tx any) (*sql.Tx, error) {
	t, ok := tx.(*sql.Tx)
	if !ok || t == nil {
		return nil, fmt.Errorf("%w: it joins a *sql.Tx, not a %T", stet.ErrForeignTx, tx)
	}
	return t, nil
}

// within returns a store within tx. A database that knows no savepoint of a name answers unmarked,
// and undone where it has undone the transaction of a statement.
func within[W tablestore.Item](tx *sql.Tx, unmarked, undone int, r tablestore.Reading, d tablestore.Driver[W]) (stet.Store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bindTime)
	defer cancel()
	b, err := tablestore.Within(ctx, tablestore.Tx{
		Exec: func(ctx context.Context, statement string) error {
			_, err := tx.ExecContext(ctx, statement)
			return err
		},
		Unmarked: func(err error) bool { return errorNumber(err) == unmarked },
		Undone:   func(err error) bool { return errorNumber(err) == undone || answered(err) == undone },
	}, r, d)
	if err != nil {
		return nil, wrap("bind", err)
	}
	return b, nil
}

func databaseMySQL(ctx context.Context, c asker) (name string, err error) {
	err = fault(c.QueryRowContext(ctx, sqltext.MySQLDatabase).Scan(&name))
	return name, err
}

// sameDatabase is [stet.ErrForeignTx] where tx is on another database than the store, whose name is
// read again then: after a failover it is on another server.
func (s *mysql) sameDatabase(tx *sql.Tx) error {
	ctx, cancel := context.WithTimeout(context.Background(), bindTime)
	defer cancel()
	its, err := databaseMySQL(ctx, tx)
	switch n := answered(err); {
	case n == mysqlNoTable || n == mysqlNoDatabase:
		return fmt.Errorf("%w: it is on a database without the tables of a store", stet.ErrForeignTx)
	case err != nil:
		return err
	case its == s.database.Load():
		return nil
	}
	own, err := databaseMySQL(ctx, s.db)
	if err != nil {
		return err
	}
	if s.database.Store(own); its != own {
		return fmt.Errorf("%w: it is on another database than the store, or on another server", stet.ErrForeignTx)
	}
	return nil
}

// createWithin looks first, in a statement of its own: one that also writes would lock what it
// looked at where reads repeat.
func createWithin(ctx context.Context, tx *sql.Tx, j *job) error {
	if err := j.taken(ctx, tx, ""); err != nil {
		return err
	}
	_, told, err := exec(ctx, tx, j.write.Insert(about(tx), false))
	if err == nil {
		j.Done(told)
	}
	if answered(err) != mysqlDuplicate {
		return err
	}
	return cmp.Or(j.taken(ctx, tx, mysqlCurrent(tx)), stet.ErrNotFound) // made meanwhile, and perhaps deleted
}
