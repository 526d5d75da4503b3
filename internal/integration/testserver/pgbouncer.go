package testserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stet-dev/stet/internal/freeport"
)

// PgBouncer returns a PgBouncer of the test's own in front of pg, in a pool mode such as
// "transaction". It has six connections to each database, fewer than its clients, so that they do
// share.
func PgBouncer(t testing.TB, pg *Server, mode string) *Server {
	t.Helper()
	program := look("pgbouncer", "/usr/sbin/pgbouncer")
	if program == "" {
		missing(t, "PgBouncer", "pgbouncer")
	}
	host, behind, err := net.SplitHostPort(pg.Addr)
	if err != nil {
		t.Fatal(err)
	}
	owner := credential(t, "postgres")
	dir := directory(t, "", "pgbouncer", owner)
	port := freeport.Of(t, 1)[0]
	config := filepath.Join(dir, "ini")
	text := fmt.Sprintf("[databases]\n* = host=%s port=%s user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\n"+
		"auth_type = any\npool_mode = %s\nmax_client_conn = 1000\ndefault_pool_size = 6\n", host, behind, port, mode)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: address(port), dir: dir, owner: owner, args: []string{config},
		kind: kind{"pgbouncer", program, syscall.SIGINT, syscall.SIGKILL, postgresReady}}
	s.Start(t)
	return own(t, s)
}
