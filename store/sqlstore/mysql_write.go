package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/storeid"
	"github.com/stet-dev/stet/internal/tablestore"
)

// job is one write.
type job struct {
	tablestore.Write
	write *sqltext.MySQLWrite // Create, Replace
	gate  *storeid.Gate       // nil: it is not for the statement to tell which store it is
}

func newJob() *job { return &job{} }

func (s *mysql) newJob() *job { return &job{gate: s.Gate} }

// heldTimeout is how long a write without a deadline tries to get at a row that another transaction
// holds.
const heldTimeout = 10 * time.Second

func compare(a, b *job) int { return tablestore.Compare(&a.Write, &b.Write) }

func (s *mysql) queue(many func(ctx context.Context, c *lane, batch []*job) error) *groupcommit.Queue[*job] {
	return groupcommit.New(groupcommit.Config[*job]{
		Alone: func(j *job) error {
			return s.writing(j.Ctx, s.writes, func(c *lane) error { return apply(j.Ctx, c, j) })
		},
		Many: func(ctx context.Context, batch []*job) error {
			return s.writing(ctx, s.writes, func(c *lane) error { return many(ctx, c, batch) })
		},
		Patient: s.patient, Settles: settlesMySQL, Fits: s.fits, Compare: compare,
		// A quarter of the packet: bytes are twice as long in hexadecimal, and other parts of a
		// record come with them.
		Lone: fewWrites, Groups: maxGroups, MaxGroup: maxGroup, MaxBytes: min(maxBatchBytes, int(s.most.Load())/4),
		Timeout: groupTimeout, Closed: ErrClosed})
}

// fits reports whether j may share a statement with others. A note has its entry in the history,
// and is rare; a large body would keep the others waiting.
func (s *mysql) fits(j *job) bool {
	return j.Head.Note == nil && (j.write == nil || !j.write.Large()) && !s.held.Has(j.Head.ID)
}

func settlesMySQL(err error) groupcommit.Outcome {
	switch n := answered(err); {
	case n == mysqlDuplicate, n == mysqlLockWait, n == mysqlDeadlock:
		return groupcommit.Contended
	case n != 0, errors.Is(err, errCount):
		return groupcommit.Refused
	}
	return groupcommit.Final
}

// patient carries out j on a connection for itself, again and again while another transaction is in
// the way. It waits without keeping a connection, so that a row that is held for long does not slow
// other writes.
func (s *mysql) patient(j *job) error {
	ctx, cancel := j.Ctx, func() {}
	if _, ok := ctx.Deadline(); !ok {
		ctx, cancel = context.WithTimeout(ctx, heldTimeout)
	}
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := s.writing(ctx, s.lookUps, func(c *lane) error { return applyIfFree(ctx, c, j) })
		switch answered(err) {
		case mysqlDuplicate, mysqlDeadlock: // nothing happened
		case mysqlLockWait, mysqlHeld:
			s.held.Add(j.Head.ID)
		default:
			return err
		}
		if !rest.For(ctx, pause/2+rand.N(pause/2)) {
			return fmt.Errorf("%w: %w: %w", stet.ErrBusy, groupcommit.Nothing(ctx.Err()), err)
		}
	}
}

// applyIfFree asks first whether another transaction holds the row: MySQL cannot be told that a
// statement that writes waits for nothing. A record that is there is found before that, also if
// another transaction holds it.
func applyIfFree(ctx context.Context, c *lane, j *job) error {
	if j.Verb == tablestore.Create {
		if err := j.taken(ctx, c, ""); err != nil {
			return err
		}
	}
	if err := askMySQL(ctx, c, j.Head.ID); err != nil {
		return err
	}
	return apply(ctx, c, j)
}

// askMySQL is an error where another transaction holds the row, also one that is not committed yet.
// It does not wait.
func askMySQL(ctx context.Context, c *lane, id stet.ID) error {
	q := about(c).Add("SELECT `version` FROM stet_records WHERE ").Whose(id).Add(" FOR UPDATE NOWAIT")
	return eachRow(ctx, c, q, func(sqltext.Scanner) error { return nil }) // it is enough that there was no error
}

// apply carries out j as one transaction of its own.
func apply(ctx context.Context, c *lane, j *job) error {
	switch {
	case j.Verb == tablestore.Create:
		return createMySQL(ctx, c, j)
	case j.Head.Note == nil:
		return changeMySQL(ctx, c, j)
	}
	return transact(ctx, c, func() error { return changeMySQL(ctx, c, j) })
}

// transact calls f within a transaction, and commits it if f returns no error.
func transact(ctx context.Context, c *lane, f func() error) error {
	if _, err := c.raw.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return groupcommit.Nothing(fault(err))
	}
	if err := f(); err != nil {
		if gone(err) {
			return err
		}
		if _, rerr := c.raw.ExecContext(ctx, "ROLLBACK"); rerr != nil {
			c.broken = true // the server undoes all when the connection ends
		}
		return err
	}
	_, err := c.raw.ExecContext(ctx, "COMMIT")
	if err = fault(err); err != nil && answered(err) != mysqlDeadlock {
		return fmt.Errorf("commit, which may have happened: %v", err)
	}
	return err
}

// about begins a statement about one record: one that is prepared and kept, where the connection is
// the store's own.
func about(c querier) *sqltext.MySQL {
	_, kept := c.(*lane)
	return &sqltext.MySQL{Kept: kept}
}

// exec returns how many rows were changed, and what the statement tells: see [sqltext.MySQLNow].
func exec(ctx context.Context, c querier, q *sqltext.MySQL) (rows, told int64, err error) {
	res, err := sender(c, q).ExecContext(ctx, string(q.Text), q.Args...)
	if err != nil {
		return 0, 0, uncertain(fault(err))
	}
	if rows, err = res.RowsAffected(); err == nil {
		told, err = res.LastInsertId()
	}
	return rows, told, err
}

// eachRow reads the rows of an answer.
func eachRow(ctx context.Context, c querier, q *sqltext.MySQL, visit func(sqltext.Scanner) error) error {
	rows, err := sender(c, q).QueryContext(ctx, string(q.Text), q.Args...)
	return fault(sqltext.EachRow(rows, err, visit))
}

// sender is c, or the connection itself for a statement that a lane is not to keep.
func sender(c querier, q *sqltext.MySQL) querier {
	if lane, ok := c.(*lane); ok && !q.Kept {
		return lane.raw
	}
	return c
}

// createMySQL looks and stores in one statement. Where that stored nothing, there is a record.
func createMySQL(ctx context.Context, c *lane, j *job) error {
	rows, told, err := exec(ctx, c, j.writeKnown().Insert(about(c), true))
	switch {
	case answered(err) == mysqlNull:
		return cmp.Or(lookAgain(ctx, c, j.gate), error(&serverError{mysqlDeadlock})) // accepted meanwhile, if it is not foreign
	case err != nil:
		return err
	case rows == 1:
		j.Done(told)
		return nil
	}
	// If it was deleted meanwhile: as if it had been taken, and not yet looked at.
	return cmp.Or(j.taken(ctx, c, ""), error(&serverError{mysqlDuplicate}))
}

// writeKnown returns the write for the store that is known.
func (j *job) writeKnown() *sqltext.MySQLWrite {
	if j.gate != nil {
		j.write.Known = j.gate.Sight().Known
	}
	return j.write
}

// taken is [stet.ErrExists] if the record is there, and nil if it is not.
func (j *job) taken(ctx context.Context, c querier, how string) (err error) {
	j.Got, err = getMySQL(ctx, c, j.Head.ID, how)
	switch {
	case err == nil:
		return stet.ErrExists
	case errors.Is(err, stet.ErrNotFound):
		return nil
	}
	return err
}

// changeMySQL replaces or removes a record of the version expected.
func changeMySQL(ctx context.Context, c querier, j *job) error {
	if j.Verb == tablestore.Remove {
		q := about(c).Add("DELETE FROM stet_records WHERE ").If(j.Head.ID, j.Prev)
		rows, _, err := exec(ctx, c, q)
		if rows == 1 || err != nil {
			return err
		}
		return j.refuse(ctx, c)
	}
	var was string // the state that is to end
	if j.Head.Note != nil {
		q := new(sqltext.MySQL).Add("SELECT `state` FROM stet_records WHERE ").If(j.Head.ID, j.Prev).Add(" FOR UPDATE")
		if err := eachRow(ctx, c, q, func(row sqltext.Scanner) error { return row.Scan(&was) }); err != nil {
			return err
		}
	}
	_, told, err := exec(ctx, c, j.write.Update(about(c), j.Prev))
	switch {
	case err != nil:
		return err
	case told == 0:
		return j.refuse(ctx, c)
	}
	j.Done(told)
	if j.Head.Note != nil {
		_, _, err = exec(ctx, c, sqltext.MySQLNoted(&j.Head, was, told))
	}
	return err
}

// refuse says why no row was changed. It reads what is there now: within a transaction that repeats
// its reads that is more than a plain SELECT would see.
func (j *job) refuse(ctx context.Context, c querier) (err error) {
	if j.Got.Head, err = getMySQLHead(ctx, c, j.Head.ID, mysqlCurrent(c)); err != nil {
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
	q := about(c).Records(stet.MaxBody(ctx)).Add(" WHERE ").Whose(id).Add(how)
	found := stet.ErrNotFound
	err = eachMySQL(ctx, c, q, (*sqltext.Row).DestBody, func(row *sqltext.Row, now int64) { r, found = row.Record(now) })
	return r, cmp.Or(err, found)
}

func getMySQLHead(ctx context.Context, c querier, id stet.ID, how string) (h stet.Head, err error) {
	q := about(c).Add(sqltext.MySQLHeads + " WHERE ").Whose(id).Add(how)
	found := stet.ErrNotFound
	err = eachMySQL(ctx, c, q, (*sqltext.Row).Dest, func(row *sqltext.Row, now int64) { h, found = row.Head(now) })
	return h, cmp.Or(err, found)
}

// eachMySQL reads records, or heads.
func eachMySQL(ctx context.Context, c querier, q *sqltext.MySQL, dest func(*sqltext.Row) []any, visit func(row *sqltext.Row, now int64)) error {
	return eachRow(ctx, c, q, func(s sqltext.Scanner) error {
		row, now := sqltext.MySQLDialect.Row(), int64(0)
		if err := s.Scan(append([]any{&now}, dest(&row)...)...); err != nil {
			return sqltext.Unread(ctx, err)
		}
		visit(&row, now)
		return nil
	})
}

func appendMySQL(ctx context.Context, c querier, change *stet.Change) error {
	q, err := sqltext.MySQLAppend(change)
	if err == nil {
		_, _, err = exec(ctx, c, q)
	}
	return err
}

// asking calls f with the pool, or with a look-up's connection where the server has none left for
// the pool.
func (s *mysql) asking(ctx context.Context, f func(on asker) error) error {
	err := f(s.db)
	if !crowded(err) {
		return err
	}
	return s.lookUps.with(ctx, func(c *lane) error { return f(c.raw) })
}

// reader reads on the store's own connections: those of the pool have the settings of the user's,
// by which a list may be one of a while ago (Q05).
func (s *mysql) reader() *sqltext.Reader {
	return &sqltext.Reader{Dialect: sqltext.MySQLDialect,
		Run: func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			return s.lookUps.with(ctx, func(c *lane) error { return readMySQL(c.raw).Run(ctx, statement, args, row) })
		}}
}

func readMySQL(c querier) *sqltext.Reader {
	return &sqltext.Reader{Dialect: sqltext.MySQLDialect,
		Run: func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			return eachRow(ctx, c, new(sqltext.MySQL).Fill(statement, args...), row)
		}}
}
