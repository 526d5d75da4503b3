package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/wrapped"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/store/sqlstore"
)

// overlapping has reads go on without a gap: each begins before the one before it ends, and lasts
// beyond the commit of a write, if there is one within a moment. While wrote tells of writes, none
// of them finds the log unread. stop ends the reads.
func overlapping(t *testing.T, db *sql.DB, wrote <-chan struct{}) (stop func()) {
	t.Helper()
	var conns [2]*sql.Conn
	exec := func(i int, statement string) {
		if _, err := conns[i].ExecContext(context.Background(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	read := func(i int) {
		exec(i, "BEGIN DEFERRED")
		var n int
		if err := conns[i].QueryRowContext(context.Background(), "SELECT count(*) FROM stet_records").Scan(&n); err != nil {
			t.Error(err)
		}
	}
	for i := range conns {
		var err error
		if conns[i], err = db.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	read(0)
	reading.Go(func() {
		i := 0
		for ; ctx.Err() == nil; i = 1 - i {
			for len(wrote) > 0 {
				<-wrote
			}
			read(1 - i)
			exec(i, "COMMIT")
			moment, cancel := context.WithTimeout(ctx, 10*time.Millisecond) // when it is over, writes wait for this read
			for range 2 {                                                   // the first may have been committed before
				select {
				case <-wrote:
				case <-moment.Done():
				}
			}
			cancel()
		}
		exec(i, "COMMIT")
		for _, c := range conns {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	stop = sync.OnceFunc(func() { cancel(); reading.Wait() })
	t.Cleanup(stop)
	return stop
}

const chunk = 64 << 10

// fill writes so many bytes, over and over the same record, and returns the largest log that it
// saw.
func fill(t *testing.T, s *sqlstore.Store, r stet.Head, bytes int64, wrote chan<- struct{}) (last stet.Head, largest int64) {
	t.Helper()
	progress := make([]byte, chunk)
	for written := int64(0); written < bytes; written += chunk {
		for i := range progress {
			progress[i]++ // SQLite does not write a page again that stays the same
		}
		next := r
		next.Version, next.DueIn = draw(), time.Minute
		got, err := s.Replace(t.Context(), r.Version, next, &stet.Body{Progress: progress})
		if err != nil {
			t.Fatalf("after %d bytes: %v", written, err)
		}
		r, largest = got, max(largest, logSize(t, s))
		select {
		case wrote <- struct{}{}:
		default:
		}
	}
	return r, largest
}

func logSize(t *testing.T, s stet.Store) int64 {
	t.Helper()
	l, ok := stet.As[sqlstore.LogSizer](s)
	if !ok {
		t.Fatal("the store does not say how large its log is")
	}
	n, err := l.LogSize()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// B06: the log of a store whose reads overlap stays bounded, which by itself it does not.
func TestLogIsBoundedWhileReadsOverlap(t *testing.T) {
	const limit, load = 2 << 20, 24 << 20
	measure := func(c sqlstore.Config) int64 {
		path := file(t)
		db, err := sql.Open("sqlite", strings.Replace(sqlstore.SQLiteDSN(path), "autocheckpoint(4000)", "autocheckpoint(100)", 1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if err := sqlstore.Migrate(t.Context(), db, sqlstore.SQLite); err != nil {
			t.Fatal(err)
		}
		s := over(t, db, c)
		wrote := make(chan struct{}, 1)
		stop := overlapping(t, db, wrote)
		defer stop()
		_, largest := fill(t, s, create(t, s, "k").Head, load, wrote)
		return largest
	}
	if left := measure(sqlstore.Config{MaxLog: 1 << 40}); left < 4*limit {
		t.Fatalf("the log does not grow by itself beyond %d bytes: nothing is put to the test", left)
	}
	if largest := measure(sqlstore.Config{MaxLog: limit}); largest > 2*limit {
		t.Errorf("the log had %d bytes; its limit is %d", largest, limit)
	}
}

// A read that lasts keeps the log, and keeps no write from being made; when it has ended the log is
// cut off.
func TestLongReadKeepsNoWriteWaiting(t *testing.T) { // B06
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{MaxLog: 1 << 20})
	r := create(t, s, "k").Head
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN DEFERRED"); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := conn.QueryRowContext(t.Context(), "SELECT count(*) FROM stet_records").Scan(&n); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	var largest int64
	go func() { defer close(done); r, largest = fill(t, s, r, 6<<20, nil) }()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("writes wait for a read that lasts")
	}
	if largest < 3<<20 {
		t.Errorf("the log had %d bytes at most: nothing kept it", largest)
	}
	if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	fill(t, s, r, 1<<20, nil)
	if size := logSize(t, s); size > 2<<20 {
		t.Errorf("after the read had ended the log has %d bytes", size)
	}
	if _, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.SQLite, MaxLog: -1}); err == nil {
		t.Error("a negative MaxLog is taken")
	}
}

// The log's size is found below all wrappers, for a metric.
func TestLogSizeThroughWrappers(t *testing.T) { // B06
	b := wrapped.Backend(backend)
	s := b.Open(t, t.TempDir(), nil)
	defer func() { _ = s.(io.Closer).Close() }()
	create(t, s, "k")
	if n := logSize(t, s); n <= 0 {
		t.Errorf("the log has %d bytes", n)
	}
}

// A page of Due seeks its place in the index of each state: what lies before its cursor costs it
// nothing.
func TestDueSeeksItsPlace(t *testing.T) {
	db := database(t, file(t))
	walk := sqltext.SQLiteSelectHeads + " WHERE state IN (?) AND " + sqltext.SQLiteDue + " AND " + sqltext.SQLiteDueAfter
	rows, err := db.Query("EXPLAIN QUERY PLAN "+walk+" UNION ALL "+walk+" ORDER BY due_at, id",
		"running", 9, 5, 1, "unknown", 9, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&plan, step)
	}
	if strings.Count(plan.String(), "stet_records_due (state=? AND due_at>?") != 2 || strings.Contains(plan.String(), "TEMP B-TREE") {
		t.Errorf("it is not sought:\n%s", plan.String())
	}
}
