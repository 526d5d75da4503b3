package blackbox

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A server that loses what it acknowledged is refused at the start, unless that is allowed, and
// takes a running gateway out of rotation until it is mended (B05, W30).
func TestServerThatLosesRecords(t *testing.T) {
	server := testserver.NewPostgres(t)
	address := server.PostgresDSN("postgres")
	if err := migrated("pgx", address, sqlstore.Postgres); err != nil {
		t.Fatal(err)
	}
	set := func(statement string) {
		t.Helper()
		for _, s := range []string{statement, "SELECT pg_reload_conf()"} {
			if err := execute("pgx", address, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	target := gatewayTarget("postgres")
	target.Open = func(t testing.TB, s Spec) (Server, error) {
		g, err := newGateway(t, "memory", s)
		if err != nil {
			return nil, err
		}
		g.dsn = address
		return g, g.open()
	}
	c := newC(t, Case{ID: "B05", Need: NeedMetrics}, newPool(t, target))
	g := c.srv.(*gateway)
	is := func(ready string, volatile float64) {
		t.Helper()
		c.Until("/readyz that says "+ready, func() bool {
			_ = g.nodes[0].cmd.Process.Signal(syscall.SIGHUP) // looks at once, where a minute would do it too
			res, err := g.Admin("/readyz")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			return err == nil && strings.Contains(string(text), ready) && (res.StatusCode == 200) == (volatile == 0)
		})
		if got := c.metric("idem_store_volatile"); got != volatile {
			t.Errorf("idem_store_volatile is %v, want %v", got, volatile)
		}
	}
	is("ready", 0)
	set("ALTER SYSTEM SET full_page_writes = off")
	is("full_page_writes is off", 1)
	c.POST("/fx/json").First(201) // it goes on: to stop is for people to decide
	for policy, refused := range map[string]bool{"": true, "store: { allow_volatile: true }": false} {
		_, err := target.Open(t, Spec{Policy: policy})
		said := fmt.Sprint(err)
		if (err != nil) != refused || refused && !(strings.Contains(said, "exit status 1") && strings.Contains(said, "store.allow_volatile")) {
			t.Errorf("%q: %v", policy, err)
		}
	}
	set("ALTER SYSTEM RESET full_page_writes")
	is("ready", 0)
	for _, line := range []string{"the store's settings lose records", "the store's settings keep records again"} {
		if log := c.srv.Log(); strings.Count(log, line) != 1 {
			t.Errorf("the log does not say once %q:\n%s", line, log)
		}
	}
}
