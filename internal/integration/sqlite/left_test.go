package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// As long as any process has the file open, of whatever program and release, nothing is taken for
// left: it may be the holder (R07).
func TestNothingIsLeftWhileAnybodyHasTheFile(t *testing.T) {
	dir := t.TempDir()
	first := backend.Open(t, dir, nil)
	begun(t, first)
	closeStore(t, first)
	left := func() int {
		t.Helper()
		s := backend.Open(t, dir, nil)
		heir, _ := stet.As[stet.Heir](s)
		n := len(heir.Left())
		closeStore(t, s)
		return n
	}
	file := filepath.Join(dir, "stet.db")

	other := exec.CommandContext(t.Context(), "sqlite3", file) // another process, without a lock of Stet's
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("SELECT count(*) FROM stet_records;\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "1\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if n := left(); n != 0 {
		t.Errorf("while another process has the file open, %d are left", n)
	}
	_ = in.Close()
	if err := other.Wait(); err != nil {
		t.Fatal(err)
	}

	pool, err := sql.Open("sqlite", sqlstore.SQLiteDSN(file)) // this process, beside any store
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := left(); n != 0 {
		t.Errorf("while this process has the file open, %d are left", n)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}

	if n := left(); n != 1 {
		t.Errorf("when nobody has the file open any more, %d are left", n)
	}
}

// tracked is a pool whose connections can be closed behind its back.
type tracked struct {
	from driver.Driver
	name string

	mu  sync.Mutex
	all []io.Closer // statements before their connections
}

func (p *tracked) Driver() driver.Driver { return p.from }

func (p *tracked) Connect(context.Context) (driver.Conn, error) {
	c, err := p.from.Open(p.name)
	if err != nil {
		return nil, err
	}
	p.track(c)
	return trackedConn{c, p}, nil
}

func (p *tracked) track(c io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append([]io.Closer{c}, p.all...)
}

type trackedConn struct {
	driver.Conn
	pool *tracked
}

func (c trackedConn) Prepare(query string) (driver.Stmt, error) {
	s, err := c.Conn.Prepare(query)
	if err == nil {
		c.pool.track(s)
	}
	return s, err
}

// A store whose pool has lost all its connections still has the file open (R07).
func TestAStoreIsPresentWithoutItsPool(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, backend.Open(t, dir, nil))
	plain, err := sql.Open("sqlite", "")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	pool := &tracked{from: plain.Driver(), name: sqlstore.SQLiteDSN(filepath.Join(dir, "stet.db"))}
	db := sql.OpenDB(pool)
	defer db.Close()
	first, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	begun(t, first)
	for _, c := range pool.all {
		_ = c.Close()
	}
	second := backend.Open(t, dir, nil)
	if heir, _ := stet.As[stet.Heir](second); len(heir.Left()) != 0 {
		t.Error("what it runs is taken for left")
	}
	closeStore(t, second)
	defer func() { _ = recover() }() // this driver panics over connections that were closed behind its back
	_ = first.Close()
}

func begun(t *testing.T, s stet.Store) {
	t.Helper()
	r := stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: "k"}, Version: 7, State: stet.Running, DueIn: time.Minute}}
	if _, err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func closeStore(t *testing.T, s stet.Store) {
	t.Helper()
	if err := s.(owner).Close(); err != nil {
		t.Fatal(err)
	}
}
