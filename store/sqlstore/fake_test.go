package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/monotonic"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/storeid"
	"github.com/stet-dev/stet/internal/tablestore"
)

// fake is a database that answers every query with one row.
type fake struct {
	row    []driver.Value
	next   func()        // not nil: called for each row
	closed chan struct{} // not nil: closed with the first answer
}

func (f *fake) open(t *testing.T) *sql.DB {
	t.Helper()
	db := sql.OpenDB(f)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (f *fake) Connect(context.Context) (driver.Conn, error) { return fakeConn{f}, nil }
func (f *fake) Driver() driver.Driver                        { return nil }

type fakeConn struct{ *fake }

func (c fakeConn) Prepare(string) (driver.Stmt, error) { return fakeStmt(c), nil }
func (c fakeConn) Begin() (driver.Tx, error)           { return nil, errors.New("it has no transactions") }
func (c fakeConn) Close() error                        { return nil }

type fakeStmt struct{ *fake }

func (s fakeStmt) NumInput() int { return -1 }
func (s fakeStmt) Exec([]driver.Value) (driver.Result, error) {
	return nil, errors.New("it writes nothing")
}
func (s fakeStmt) Query([]driver.Value) (driver.Rows, error) { return &fakeRows{fake: s.fake}, nil }
func (s fakeStmt) Close() error                              { return nil }

type fakeRows struct {
	*fake
	read bool
}

func (r *fakeRows) Columns() []string { return make([]string, len(r.row)) }

func (r *fakeRows) Next(dest []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read = true
	if r.next != nil {
		r.next()
	}
	copy(dest, r.row)
	return nil
}

func (r *fakeRows) Close() error {
	if r.closed != nil {
		close(r.closed)
		r.closed = nil
	}
	return nil
}

// A context that ends between two looks at an answer is no damaged record: database/sql closes the
// rows while they are read.
func TestContextEndsWithinAnAnswerOfMySQL(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &fake{row: []driver.Value{int64(1)}, closed: make(chan struct{})}
	closed := f.closed
	err := eachMySQL(ctx, f.open(t), new(sqltext.MySQL).Add("SELECT"), func(*sqltext.Row) []any {
		cancel()
		<-closed
		return nil
	}, func(*sqltext.Row, int64) { t.Error("it was read") })
	if !errors.Is(err, context.Canceled) || errors.Is(err, stet.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if !gone(err) {
		t.Errorf("after %v the connection is used again", err)
	}
}

// The same for the versions that a group reads.
func TestContextEndsWithinTheVersionsOfAGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{row: make([]driver.Value, 6), next: cancel} // of NULL, so that it can be read in no case
	conn, err := f.open(t).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = versions(ctx, &lane{raw: conn}, new(sqltext.MySQL).Add("SELECT"))
	if !errors.Is(err, context.Canceled) || errors.Is(err, stet.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// ended is a column of rows that database/sql has closed with their transaction.
type ended struct{}

func (ended) Scan(any) error { return context.Canceled }

// A transaction that ends while a record is read in it is no damaged record.
func TestTransactionEndsWithinALook(t *testing.T) {
	db := (&fake{row: []driver.Value{int64(1)}}).open(t)
	if err := one(db, "SELECT", nil, []any{ended{}}); !errors.Is(err, context.Canceled) || errors.Is(err, stet.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	var n stet.Head // not a column's type
	if err := one(db, "SELECT", nil, []any{&n}); !errors.Is(err, stet.ErrCorrupt) {
		t.Errorf("a column of another type: %v", err)
	}
}

// What the caller of a Create saw beside the queue is the answer as it is. The write's own answer
// belongs to the goroutine that writes, which may be at work for it in this instant.
func TestWhatACallerSawIsItsOwn(t *testing.T) {
	there := stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: "k"}, Version: 7, State: stet.Running}}
	stored := creation(t, &there)
	at := sqltext.Born(&there.Head, 1)
	args, body := stored.stamped(&at), len(stored.args)-1 // the head, the body, the instants
	f := &fake{row: []driver.Value{int64(sqltext.Schema), "s", "k"}}
	for _, v := range slices.Concat(args[:body], args[body+1:], args[body:body+1]) {
		column, err := driver.DefaultParameterConverter.ConvertValue(v)
		if err != nil {
			t.Fatal(err)
		}
		f.row = append(f.row, column)
	}
	f.row = append(f.row, int64(len(args[body].([]byte))))
	s := &sqlite{clock: &monotonic.Shared{}, readers: newLanes(f.open(t), 1, asItIs),
		Gate: &storeid.Gate{Look: func(context.Context) (stet.Identity, error) { return stet.Identity{ID: "st_1"}, nil }}}
	s.Verbs = s.verbs()
	s.known.add(there.ID)
	fresh := there
	fresh.Version = 8
	o := creation(t, &fresh)
	if err := s.carry(o); err != stet.ErrExists || o.Seen == nil || o.Got.Version != 0 {
		t.Errorf("%v; the write's own answer is version %d", err, o.Got.Version)
	}
	if got, err := s.Create(t.Context(), fresh); err != stet.ErrExists || got.Version != there.Version {
		t.Errorf("a duplicate: version %d, %v", got.Version, err)
	}
	s.readers.close()
}

func creation(t *testing.T, r *stet.Record) *op {
	o := newOp()
	o.Ctx, o.Verb, o.Head, o.Body = t.Context(), tablestore.Create, r.Head, r.Body
	if err := o.pack(); err != nil {
		t.Fatal(err)
	}
	return o
}
