package crashpoint

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// fake is a driver whose statements do nothing, but for those that are to fail.
type fake struct{}

var errFails = errors.New("it fails")

func (fake) Open(string) (driver.Conn, error)                             { return fake{}, nil }
func (fake) Begin() (driver.Tx, error)                                    { return fake{}, nil }
func (fake) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return fake{}, nil }
func (fake) Commit() error                                                { return nil }
func (fake) Rollback() error                                              { return nil }
func (fake) Prepare(query string) (driver.Stmt, error)                    { return statement{query: query}, nil }
func (fake) Close() error                                                 { return nil }

func (fake) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, failing(query)
}

func (fake) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	return &one{}, failing(query)
}

func failing(query string) error {
	if query == "fail" {
		return errFails
	}
	return nil
}

type statement struct {
	driver.Stmt
	query string
}

func (statement) Close() error  { return nil }
func (statement) NumInput() int { return -1 }

func (s statement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return fake{}.ExecContext(ctx, s.query, args)
}

func (s statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return fake{}.QueryContext(ctx, s.query, args)
}

// one is one row.
type one struct{ read bool }

func (*one) Columns() []string { return []string{"n"} }
func (*one) Close() error      { return nil }
func (o *one) Next(to []driver.Value) error {
	if o.read {
		return io.EOF
	}
	o.read, to[0] = true, int64(1)
	return nil
}

func init() { sql.Register("fake", fake{}) }

// Each thing that goes to a database has a point before it and one after it, and between its answer and the end of its rows another.
func TestPoints(t *testing.T) {
	var out strings.Builder
	p := &Points{Out: &out}
	p.Arm()
	db, err := OpenSQL("fake", "", p)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ctx := t.Context()
	prepared, err := db.PrepareContext(ctx, "prepared")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = prepared.Close() }()
	row := func(r *sql.Row) error {
		var n int
		return r.Scan(&n)
	}
	inTx := func(end func(*sql.Tx) error) func() error {
		return func() error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "write", 1)
			return errors.Join(err, end(tx))
		}
	}
	for _, c := range []struct {
		name string
		do   func() error
		want []string
		err  error
	}{
		{"exec", func() error { _, err := db.ExecContext(ctx, "write", 1); return err }, []string{"WRITE, before", "WRITE, after"}, nil},
		{"exec that fails", func() error { _, err := db.ExecContext(ctx, "fail"); return err }, []string{"FAIL, before", "FAIL, after"}, errFails},
		{"query", func() error { return row(db.QueryRowContext(ctx, "read", "x")) },
			[]string{"READ, before", "READ, rows to come", "READ, after"}, nil},
		{"query that fails", func() error { return row(db.QueryRowContext(ctx, "fail")) },
			[]string{"FAIL, before", "FAIL, rows to come", "FAIL, after"}, errFails},
		{"prepared exec", func() error { _, err := prepared.ExecContext(ctx, 1); return err },
			[]string{"PREPARED, before", "PREPARED, after"}, nil},
		{"prepared query", func() error { return row(prepared.QueryRowContext(ctx)) },
			[]string{"PREPARED, before", "PREPARED, rows to come", "PREPARED, after"}, nil},
		{"commit", inTx((*sql.Tx).Commit),
			[]string{"BEGIN, before", "BEGIN, after", "WRITE, before", "WRITE, after", "COMMIT, before", "COMMIT, after"}, nil},
		{"rollback", inTx((*sql.Tx).Rollback),
			[]string{"BEGIN, before", "BEGIN, after", "WRITE, before", "WRITE, after", "ROLLBACK, before", "ROLLBACK, after"}, nil},
	} {
		out.Reset()
		if err := c.do(); !errors.Is(err, c.err) || err != nil && c.err == nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if points := passed(out.String()); !slices.Equal(points, c.want) {
			t.Errorf("%s: %q, want %q", c.name, points, c.want)
		}
	}
}

// passed is what and where, without how often.
func passed(out string) (points []string) {
	for line := range strings.Lines(out) {
		name := strings.TrimPrefix(line, pointPrefix)
		points = append(points, name[:strings.LastIndex(name, ", ")])
	}
	return points
}

func TestOpenSQLNamesADriverThatIsNotThere(t *testing.T) {
	if _, err := OpenSQL("no such", "", nil); err == nil {
		t.Error("it was opened")
	}
}
