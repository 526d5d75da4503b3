package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// job is one write.
type job struct {
	verb
	ctx   context.Context
	head  stet.Head // remove: its ID alone
	prev  stet.Version
	write *sqltext.MySQLWrite // create, replace

	err  error
	got  stet.Head   // as stored; of the incumbent with [stet.ErrStale]
	have stet.Record // the incumbent with [stet.ErrExists]

	place jobPlace
}

// heldTimeout is how long a write without a deadline tries to get at a row that another transaction holds.
const heldTimeout = 10 * time.Second

// do carries out j in a group, and alone where the group cannot.
func (s *mysql) do(g *group, j *job) error {
	if g.fits(j) && !s.held.has(j.head.ID) {
		if err := g.do(j); err != errAlone {
			return err
		}
	}
	ctx, cancel := j.ctx, func() {}
	if _, ok := ctx.Deadline(); !ok {
		ctx, cancel = context.WithTimeout(ctx, heldTimeout)
	}
	defer cancel()
	return s.alone(ctx, j)
}

// alone carries out j on a connection for itself, again and again while another transaction is in the way. It waits without
// holding on to a connection: a row that somebody keeps must not slow its neighbours.
func (s *mysql) alone(ctx context.Context, j *job) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := s.lookUps.with(ctx, func(c *lane) error { return applyIfFree(ctx, c, j) })
		switch answered(err) {
		case mysqlDuplicate, mysqlDeadlock: // nothing happened
		case mysqlLockWait, mysqlHeld:
			s.held.add(j.head.ID)
		default:
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w: %w", errNothing, ctx.Err(), err)
		}
	}
}

// applyIfFree asks first whether another transaction holds the row: MySQL cannot be told that a statement that writes waits for
// nobody. A record that is there is found before, whoever holds it.
func applyIfFree(ctx context.Context, c *lane, j *job) (err error) {
	if j.verb == create {
		if j.have, err = getMySQL(ctx, c, j.head.ID, ""); err == nil {
			return stet.ErrExists
		} else if !errors.Is(err, stet.ErrNotFound) {
			return err
		}
	}
	if err := askMySQL(ctx, c, j.head.ID); err != nil {
		return err
	}
	return apply(ctx, c, j)
}

// apply carries out j as one transaction of its own.
func apply(ctx context.Context, c *lane, j *job) error {
	switch {
	case j.verb == create:
		return createMySQL(ctx, c, j)
	case j.verb == remove:
		return removeMySQL(ctx, c, j)
	case j.head.Note == nil:
		return replaceMySQL(ctx, c, j)
	}
	return transact(ctx, c, func() error { return replaceMySQL(ctx, c, j) })
}

// transact calls f within a transaction, and commits it if f returns no error.
func transact(ctx context.Context, c *lane, f func() error) error {
	if _, err := c.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return fmt.Errorf("%w: %w", errNothing, fault(err))
	}
	if err := f(); err != nil {
		if gone(err) {
			return err
		}
		if _, rerr := c.ExecContext(ctx, "ROLLBACK"); rerr != nil {
			c.broken = true // the server undoes all when the connection ends
		}
		return err
	}
	_, err := c.ExecContext(ctx, "COMMIT")
	if err = fault(err); err != nil && answered(err) != mysqlDeadlock {
		return fmt.Errorf("commit, which may have happened: %v", err)
	}
	return err
}

// querier is a connection or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// about begins a statement about one record: one that is prepared and kept, where the connection is the store's own.
func about(c querier) *sqltext.MySQL {
	_, kept := c.(*lane)
	return &sqltext.MySQL{Kept: kept}
}

// exec returns how many rows were changed, and what the statement tells: see [sqltext.MySQLNow].
func exec(ctx context.Context, c querier, q *sqltext.MySQL) (rows, told int64, err error) {
	var res sql.Result
	if lane, ok := c.(*lane); ok && q.Kept {
		var s *sql.Stmt
		if s, err = lane.statement(ctx, string(q.Text)); err == nil {
			res, err = s.ExecContext(ctx, q.Args...)
		}
	} else {
		res, err = c.ExecContext(ctx, string(q.Text), q.Args...)
	}
	if err != nil {
		return 0, 0, uncertain(fault(err))
	}
	if rows, err = res.RowsAffected(); err == nil {
		told, err = res.LastInsertId()
	}
	return rows, told, err
}

func query(ctx context.Context, c querier, q *sqltext.MySQL) (*sql.Rows, error) {
	if lane, ok := c.(*lane); ok && q.Kept {
		s, err := lane.statement(ctx, string(q.Text))
		if err != nil {
			return nil, err
		}
		return s.QueryContext(ctx, q.Args...)
	}
	return c.QueryContext(ctx, string(q.Text), q.Args...)
}

// createMySQL looks and stores in one statement. Where that stored nothing, there is a record.
func createMySQL(ctx context.Context, c *lane, j *job) error {
	rows, told, err := exec(ctx, c, j.write.Insert(about(c), true))
	switch {
	case err != nil:
		return err
	case rows == 1:
		j.born(told)
		return nil
	}
	switch j.have, err = getMySQL(ctx, c, j.head.ID, ""); {
	case err == nil:
		return stet.ErrExists
	case errors.Is(err, stet.ErrNotFound): // deleted meanwhile: as if it had been taken, and not yet looked at
		return &serverError{mysqlDuplicate}
	}
	return err
}

func (j *job) born(at int64) {
	s := sqltext.Born(&j.head, at)
	j.got = stamped(j.head, &s)
}

func (j *job) changed(at int64) {
	s := sqltext.Changed(&j.head, at)
	j.got = stamped(j.head, &s)
}

func replaceMySQL(ctx context.Context, c querier, j *job) error {
	var was string
	if j.head.Note != nil {
		var err error
		if was, err = stateMySQL(ctx, c, j); err != nil {
			return err
		}
	}
	_, told, err := exec(ctx, c, j.write.Update(about(c), j.prev))
	switch {
	case err != nil:
		return err
	case told == 0:
		return j.refuse(ctx, c)
	}
	j.changed(told)
	if j.head.Note != nil {
		_, _, err = exec(ctx, c, sqltext.MySQLNoted(&j.head, was, told))
	}
	return err
}

// stateMySQL locks the row, and returns the state that is to end.
func stateMySQL(ctx context.Context, c querier, j *job) (state string, err error) {
	q := new(sqltext.MySQL).Add("SELECT `state` FROM stet_records WHERE ").If(j.head.ID, j.prev).Add(" FOR UPDATE")
	rows, err := c.QueryContext(ctx, string(q.Text), q.Args...)
	if err != nil {
		return "", fault(err)
	}
	defer rows.Close()
	if rows.Next() {
		err = rows.Scan(&state)
	}
	return state, fault(errors.Join(err, rows.Err()))
}

func removeMySQL(ctx context.Context, c querier, j *job) error {
	q := about(c).Add("DELETE FROM stet_records WHERE ").If(j.head.ID, j.prev)
	rows, _, err := exec(ctx, c, q)
	if rows == 1 || err != nil {
		return err
	}
	return j.refuse(ctx, c)
}

// refuse says why no row was changed. It reads what is there now: within a transaction that repeats its reads that is more
// than a plain SELECT would see.
func (j *job) refuse(ctx context.Context, c querier) (err error) {
	if j.got, err = getMySQLHead(ctx, c, j.head.ID, mysqlCurrent(c)); err != nil {
		return err
	}
	return stet.ErrStale
}

// mysqlCurrent is how a SELECT reads what is committed rather than what its transaction saw first.
func mysqlCurrent(c querier) string {
	if _, ok := c.(*sql.Tx); ok {
		return " LOCK IN SHARE MODE"
	}
	return ""
}

func getMySQL(ctx context.Context, c querier, id stet.ID, how string) (r stet.Record, err error) {
	q := about(c).Add(sqltext.MySQLRecords + " WHERE ").Whose(id).Add(how)
	err = oneMySQL(ctx, c, q, (*sqltext.Row).DestBody, func(row *sqltext.Row, now int64) error {
		r, err = row.Record(now)
		return err
	})
	return r, err
}

func getMySQLHead(ctx context.Context, c querier, id stet.ID, how string) (h stet.Head, err error) {
	q := about(c).Add(sqltext.MySQLHeads + " WHERE ").Whose(id).Add(how)
	err = oneMySQL(ctx, c, q, (*sqltext.Row).Dest, func(row *sqltext.Row, now int64) error {
		h, err = row.Head(now)
		return err
	})
	return h, err
}

func oneMySQL(ctx context.Context, c querier, q *sqltext.MySQL, dest func(*sqltext.Row) []any, f func(*sqltext.Row, int64) error) error {
	found := stet.ErrNotFound
	err := eachMySQL(ctx, c, q, dest, func(row *sqltext.Row, now int64) { found = f(row, now) })
	if err != nil {
		return err
	}
	return found
}

// eachMySQL reads rows.
func eachMySQL(ctx context.Context, c querier, q *sqltext.MySQL, dest func(*sqltext.Row) []any, visit func(row *sqltext.Row, now int64)) error {
	rows, err := query(ctx, c, q)
	if err != nil {
		return fault(err)
	}
	defer rows.Close()
	for rows.Next() {
		row := &sqltext.Row{Unstamped: true}
		var now int64
		if rows.Scan(append([]any{&now}, dest(row)...)...) != nil {
			return errColumn
		}
		visit(row, now)
	}
	return fault(rows.Err())
}
