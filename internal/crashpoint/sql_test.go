package crashpoint

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
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

// Each thing that goes to a database has a point before it and one after it, and between its answer and the end of its rows another.
func TestPoints(t *testing.T) {
	sql.Register("fake", fake{})
	var points []string
	db, err := OpenSQL("fake", "", func(what string) func(Where) {
		points = append(points, what)
		return func(at Where) { points = append(points, fmt.Sprint(what, " ", at)) }
	})
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
		{"exec", func() error { _, err := db.ExecContext(ctx, "write", 1); return err }, []string{"write", "write 2"}, nil},
		{"exec that fails", func() error { _, err := db.ExecContext(ctx, "fail"); return err }, []string{"fail", "fail 2"}, errFails},
		{"query", func() error { return row(db.QueryRowContext(ctx, "read", "x")) }, []string{"read", "read 1", "read 2"}, nil},
		{"query that fails", func() error { return row(db.QueryRowContext(ctx, "fail")) }, []string{"fail", "fail 1", "fail 2"}, errFails},
		{"prepared exec", func() error { _, err := prepared.ExecContext(ctx, 1); return err }, []string{"prepared", "prepared 2"}, nil},
		{"prepared query", func() error { return row(prepared.QueryRowContext(ctx)) }, []string{"prepared", "prepared 1", "prepared 2"}, nil},
		{"commit", inTx((*sql.Tx).Commit), []string{"BEGIN", "BEGIN 2", "write", "write 2", "COMMIT", "COMMIT 2"}, nil},
		{"rollback", inTx((*sql.Tx).Rollback), []string{"BEGIN", "BEGIN 2", "write", "write 2", "ROLLBACK", "ROLLBACK 2"}, nil},
	} {
		points = nil
		if err := c.do(); !errors.Is(err, c.err) || err != nil && c.err == nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !slices.Equal(points, c.want) {
			t.Errorf("%s: %q, want %q", c.name, points, c.want)
		}
	}
}

func TestOpenSQLNamesADriverThatIsNotThere(t *testing.T) {
	if _, err := OpenSQL("no such", "", nil); err == nil {
		t.Error("it was opened")
	}
}
