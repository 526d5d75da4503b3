package blackbox

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stet-dev/stet/internal/integration/testserver"
)

// D11: what a server refuses is said with what to do about it, and nothing that was never sent "may
// have happened".
func TestMessagesOfServers(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "pg_hba.conf")
	for _, dir := range []string{filepath.Dir(rules), filepath.Dir(filepath.Dir(rules))} { // the server has a user of its own
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(rules, []byte("local all all trust\nhost all postgres all trust\nhost all known all scram-sha-256\nhost all ghost all trust\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	pg := testserver.NewPostgres(t, "hba_file="+rules)
	if err := execute("pgx", pg.PostgresDSN("postgres"), "CREATE ROLE known LOGIN PASSWORD 'secret'"); err != nil {
		t.Fatal(err)
	}
	my := testserver.MariaDB(t)
	locked := testserver.NewRedis(t)
	locked.Lock(t, "secret")
	_, replica := testserver.RedisPair(t)
	replica.KeepLog(t)
	cluster := testserver.RedisCluster(t)
	for _, n := range cluster.Nodes {
		n.KeepLog(t)
	}
	node := cluster.Addrs()[0]
	for name, c := range map[string]struct{ dsn, want string }{
		"Postgres, no such database":   {"postgres://postgres@" + pg.Addr + "/nonesuch", "3D000: it has no such database; correct the name in the address, or make it (CREATE DATABASE)"},
		"Postgres, no such user":       {"postgres://ghost@" + pg.Addr + "/postgres", "28000: it rejects this user or this way to connect; correct the user in the address, or the server's pg_hba.conf"},
		"Postgres, no rule":            {"postgres://stranger@" + pg.Addr + "/postgres", "28000: it rejects this user or this way to connect"},
		"Postgres, wrong password":     {"postgres://known:hidden@" + pg.Addr + "/postgres", "28P01: the password is not that user's; correct it in the address"},
		"Postgres, nobody there":       {"postgres://u:hidden@127.0.0.1:1/d", "could not connect: dial tcp 127.0.0.1:1: connect: connection refused"},
		"Postgres, no such socket":     {"postgres:///d?host=/nonesuch", "could not connect: dial unix /nonesuch/.s.PGSQL.5432: connect: no such file or directory"},
		"MariaDB, no such database":    {"mysql://root@" + my.Addr + "/nonesuch", "1049: it has no such database; correct the name in the address, or make it (CREATE DATABASE)"},
		"MariaDB, wrong password":      {"mysql://root:hidden@" + my.Addr + "/mysql", "1045: the user or the password is not right; correct them in the address"},
		"MariaDB, nobody there":        {"mysql://u:hidden@127.0.0.1:1/d", "dial tcp 127.0.0.1:1: connect: connection refused"},
		"Redis, no password":           {"redis://" + locked.Addr, "; the server wants a password: give the client one (redis://USER:PASSWORD@HOST)"},
		"Redis, wrong password":        {"redis://:hidden@" + locked.Addr, "; correct the user or the password that the client was given"},
		"Redis, a replica":             {"redis://" + replica.Addr, "; the server is a replica: give the client its master, or the sentinels (redis+sentinel://HOST,HOST/NAME)"},
		"Redis, a node of a cluster":   {"redis://" + node, "; the server is a node of a cluster, and the client takes it for one by itself: give it a client for clusters (redis+cluster://HOST,HOST)"},
		"Redis, nobody there":          {"redis://:hidden@127.0.0.1:1", "dial tcp 127.0.0.1:1: connect: connection refused"},
		"Redis, a server, no sentinel": {"redis+sentinel://" + replica.Addr + "/main", "the store cannot be reached: redis+sentinel://" + replica.Addr + "/main: "},
	} {
		commands := [][]string{{"keys", "list"}, {"migrate", "status"}, {"gateway", "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}}
		if strings.HasPrefix(c.dsn, "redis") { // it has no schema
			commands = slices.Delete(commands, 1, 2)
		}
		for _, command := range commands {
			out, status := typed(t, append(command, "--store", c.dsn)...)
			if status != 5 || !strings.Contains(out, c.want) || strings.Contains(out, "may have happened") || strings.Contains(out, "hidden") || strings.Count(out, "\n") != 1 {
				t.Errorf("%s: stet %s: status %d\n%s\nwant: %s", name, command[0], status, out, c.want)
			}
		}
	}
}

// D11: Postgres over a Unix socket.
func TestPostgresOverASocket(t *testing.T) {
	pg := testserver.Postgres(t)
	direct, err := serverDSN(t, "postgres")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(pg.Addr, ":")
	for _, dsn := range []string{"postgres://postgres@" + u.Path + "?host=" + pg.Dir() + "&port=" + port, "postgres://" + u.Path + "?host=" + pg.Dir() + "&port=" + port} {
		t.Setenv("PGUSER", "postgres") // the second address names no user, and the system's is none of the server's
		if out, status := typed(t, "migrate", "status", "--store", dsn); status != 0 || !strings.Contains(out, "up to date") {
			t.Errorf("%s: status %d\n%s", dsn, status, out)
		}
		if out, status := typed(t, "keys", "list", "--store", dsn); status != 0 {
			t.Errorf("%s: status %d\n%s", dsn, status, out)
		}
	}
}

// typed runs a command of the binary to its end, and returns all it printed and its status.
func typed(t *testing.T, args ...string) (out string, status int) {
	t.Helper()
	bin, err := binary(false)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir = t.TempDir()
	printed, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return string(printed), cmd.ProcessState.ExitCode()
}
