package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// faults is a connector whose connections fail on command, around statements that really run.
type faults struct {
	dsn string

	mu     sync.Mutex
	before map[string]error // by the first word of a statement, or "connect": it does not run
	after  map[string]error // it runs, and its answer is lost
}

func (f *faults) Connect(ctx context.Context) (driver.Conn, error) {
	if before, _ := f.faults("connect"); before != nil {
		return nil, before
	}
	c, err := (&sqlite3.Driver{}).Open(f.dsn)
	return &faultyConn{c, f}, err
}

func (f *faults) Driver() driver.Driver { return &sqlite3.Driver{} }

func (f *faults) set(before, after map[string]error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *faults) faults(query string) (before, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	word, _, _ := strings.Cut(query, " ")
	return f.before[word], f.after[word]
}

type faultyConn struct {
	driver.Conn
	f *faults
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	before, after := c.f.faults(query)
	if before != nil {
		return nil, before
	}
	res, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	return res, errors.Join(err, after)
}

func (c *faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c *faultyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	return &faultyStmt{s, query, c.f}, err
}

type faultyStmt struct {
	driver.Stmt
	query string
	f     *faults
}

func (s *faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	before, after := s.f.faults(s.query)
	if before != nil {
		return nil, before
	}
	res, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	return res, errors.Join(err, after)
}

func (s *faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if before, _ := s.f.faults(s.query); before != nil {
		return nil, before
	}
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}

// A statement of the transaction fails, or its answer is lost, and also the roll-back or the whole
// connection: every caller is told, what is stored is one thing or the other (W2, W5), and the next
// write works.
func TestFailingConnection(t *testing.T) {
	broken := errors.New("the disk said no")
	for name, tt := range map[string]struct {
		before, after map[string]error
		happens       bool
	}{
		"begin":                       {before: map[string]error{"BEGIN": broken}},
		"begin, answer lost":          {after: map[string]error{"BEGIN": broken}},
		"begin and roll back":         {after: map[string]error{"BEGIN": broken}, before: map[string]error{"ROLLBACK": broken}},
		"insert":                      {before: map[string]error{"INSERT": broken}},
		"insert, answer lost":         {after: map[string]error{"INSERT": broken}},
		"insert and roll back":        {after: map[string]error{"INSERT": broken}, before: map[string]error{"ROLLBACK": broken}},
		"commit":                      {before: map[string]error{"COMMIT": broken}},
		"commit and roll back":        {before: map[string]error{"COMMIT": broken, "ROLLBACK": broken}},
		"commit, answer lost":         {after: map[string]error{"COMMIT": broken}, happens: true},
		"commit, the connection ends": {after: map[string]error{"COMMIT": driver.ErrBadConn}, happens: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &faults{dsn: sqlstore.SQLiteDSN(file(t))}
			db := sql.OpenDB(f)
			t.Cleanup(func() { _ = db.Close() })
			if err := sqlstore.Migrate(t.Context(), db, sqlstore.SQLite); err != nil {
				t.Fatal(err)
			}
			s := over(t, db, sqlstore.Config{})
			create(t, s, "before")

			f.set(tt.before, tt.after)
			records := []stet.Record{sample(), sample(), sample()}
			var wg sync.WaitGroup
			for _, r := range records {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					if _, err := s.Create(ctx, r); err == nil || errors.Is(err, stet.ErrExists) {
						t.Errorf("create: %v", err)
					}
				})
			}
			wg.Wait()
			f.set(nil, nil)

			for _, r := range records {
				switch got, err := s.Create(t.Context(), r); {
				case tt.happens && (!errors.Is(err, stet.ErrExists) || got.Version != r.Version):
					t.Errorf("it has not happened: %v", err)
				case !tt.happens && err != nil:
					t.Errorf("again: %v", err)
				}
			}
			if heads, _, err := s.List(t.Context(), stet.Query{}); err != nil || len(heads) != 1+len(records) {
				t.Errorf("%d records, %v", len(heads), err)
			}
		})
	}
}
