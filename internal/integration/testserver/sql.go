package testserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/freeport"
)

var postgres, mariadb shared

// Postgres returns the shared Postgres, which survives its own crash but not the machine's: it
// syncs, as the store demands, but its files are in memory. Sessions with synchronous_commit=on
// wait for a standby that is not there.
func Postgres(t testing.TB) *Server {
	t.Helper()
	return postgres.get(t, func(t testing.TB) *Server {
		return newPostgres(t, memory(), "-c", "max_wal_size=256MB", "-c", "synchronous_standby_names=absent", "-c", "synchronous_commit=local")
	})
}

// Standby returns a standby of the primary s, a Postgres of the test's own, which the name is for
// synchronous_standby_names.
func (s *Server) Standby(t testing.TB, name string) *Server {
	t.Helper()
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	dir := directory(t, "", "postgres", s.owner)
	data := filepath.Join(dir, "data")
	prepare(t, dir, s.owner, filepath.Join(filepath.Dir(s.kind.program), "pg_basebackup"), "-D", data, "-h", host, "-p", port, "-U", "postgres",
		"--checkpoint=fast", "--no-sync", "--write-recovery-conf")
	at := freeport.Of(t, 1)[0]
	standby := &Server{Addr: address(at), dir: dir, owner: s.owner, kind: s.kind}
	standby.args = []string{"-D", data, "-p", strconv.Itoa(at), "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=1000",
		"-c", "shared_buffers=64MB", "-c", "cluster_name=" + name}
	standby.Start(t)
	return own(t, standby)
}

// NewPostgres returns a Postgres of the test's own, with settings such as "fsync=off" on top of the
// defaults.
func NewPostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	var args []string
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	return own(t, newPostgres(t, "", args...))
}

func newPostgres(t testing.TB, in string, extra ...string) *Server {
	t.Helper()
	bin := filepath.Dir(look("/usr/lib/postgresql/*/bin/postgres"))
	if bin == "." {
		missing(t, "Postgres", "postgresql-15")
	}
	owner := credential(t, "postgres")
	dir := directory(t, in, "postgres", owner)
	data := filepath.Join(dir, "data")
	prepare(t, dir, owner, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	port := freeport.Of(t, 1)[0]
	s := &Server{Addr: address(port), dir: dir, owner: owner,
		kind: kind{"postgres", filepath.Join(bin, "postgres"), syscall.SIGINT, syscall.SIGQUIT, postgresReady}}
	s.args = append([]string{"-D", data, "-p", strconv.Itoa(port), "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=1000",
		"-c", "shared_buffers=64MB"}, extra...)
	s.Start(t)
	return s
}

// Data is the directory of what a Postgres or a MariaDB keeps.
func (s *Server) Data() string { return filepath.Join(s.dir, "data") }

// Keep copies all that a stopped server keeps, with its owners. restore puts it back, once the
// server is stopped again.
func (s *Server) Keep(t testing.TB) (restore func()) {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "data")
	copyAll := func(from, to string) {
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	copyAll(s.Data(), kept)
	return func() {
		t.Helper()
		if err := os.RemoveAll(s.Data()); err != nil {
			t.Fatal(err)
		}
		copyAll(kept, s.Data())
	}
}

// Flip turns a bit of a file over, which stays its owner's.
func Flip(t testing.TB, path string, bit int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err = f.ReadAt(b[:], int64(bit/8)); err == nil {
		b[0] ^= 1 << (bit % 8)
		_, err = f.WriteAt(b[:], int64(bit/8))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Checksums has a Postgres that is stopped write checksums into its pages.
func (s *Server) Checksums(t testing.TB) {
	t.Helper()
	prepare(t, s.dir, s.owner, filepath.Join(filepath.Dir(s.kind.program), "pg_checksums"), "--enable", "--no-sync", "-D", s.Data())
}

// PostgresDSN names a database of a Postgres; "postgres" is there from the beginning.
func (s *Server) PostgresDSN(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Addr, database)
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// ask opens a connection, says something, and reads n bytes of the answer.
func ask(addr string, say []byte, n int) ([]byte, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(say); err != nil {
		return nil, err
	}
	got := make([]byte, n)
	_, err = io.ReadFull(conn, got)
	return got, err
}

// postgresReady logs in: a server that recovers takes connections and refuses them.
func postgresReady(addr string) error {
	body := append(binary.BigEndian.AppendUint32(nil, 3<<16), "user\x00postgres\x00database\x00postgres\x00\x00"...)
	got, err := ask(addr, append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...), 1)
	if err == nil && got[0] != 'R' {
		err = errors.New("it refuses to log in")
	}
	return err
}

// MariaDB returns the shared MariaDB, which does not wait for the disk.
func MariaDB(t testing.TB) *Server {
	t.Helper()
	return mariadb.get(t, func(t testing.TB) *Server { return newMariaDB(t) })
}

// NewMariaDB returns a MariaDB of the test's own, with options such as
// "--innodb-lock-wait-timeout=1".
func NewMariaDB(t testing.TB, options ...string) *Server {
	t.Helper()
	return own(t, newMariaDB(t, options...))
}

func newMariaDB(t testing.TB, extra ...string) *Server {
	t.Helper()
	program, install := look("mariadbd", "/usr/sbin/mariadbd"), look("mariadb-install-db", "/usr/bin/mariadb-install-db")
	if program == "" || install == "" {
		missing(t, "MariaDB", "mariadb-server")
	}
	owner := credential(t, "mysql")
	dir := directory(t, "", "mariadb", owner)
	data := filepath.Join(dir, "data")
	prepare(t, dir, owner, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db",
		"--skip-name-resolve", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0", "--tmpdir="+dir)
	port := freeport.Of(t, 1)[0]
	s := &Server{Addr: address(port), dir: dir, owner: owner, kind: kind{"mariadb", program, syscall.SIGTERM, syscall.SIGKILL, mariadbReady}}
	s.args = append([]string{"--no-defaults", "--datadir=" + data, "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port),
		"--socket=" + filepath.Join(dir, "s"), "--pid-file=" + filepath.Join(dir, "pid"), "--innodb-log-file-size=8M",
		"--innodb-buffer-pool-size=32M", "--skip-name-resolve", "--max-connections=1000", "--innodb-fast-shutdown=2", "--tmpdir=" + dir}, extra...)
	s.Start(t)
	return s
}

// MariaDBDSN names a database of a MariaDB, "" for none, in the form of
// github.com/go-sql-driver/mysql.
func (s *Server) MariaDBDSN(database string) string { return "root@tcp(" + s.Addr + ")/" + database }

// mariadbReady waits for the greeting, which comes when it serves.
func mariadbReady(addr string) error {
	got, err := ask(addr, nil, 5)
	if err == nil && got[4] != 10 {
		err = errors.New("it refuses to log in")
	}
	return err
}
