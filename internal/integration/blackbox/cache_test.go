package blackbox

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/integration/testserver"
)

// A cache that is the store's own database by another name, which no check of the configuration can
// see, costs no record: copies end, and what they are copies of stays (I1).
func TestCacheInTheStoresOwnDatabase(t *testing.T) {
	target := gatewayTarget("redis")
	target.Open = func(t testing.TB, s Spec) (Server, error) {
		g, err := newGateway(t, "redis", s)
		if err != nil {
			return nil, err
		}
		g.store += ", cache_ttl_s: 0.5, cache: '" + strings.Replace(g.dsn, "127.0.0.1", "localhost", 1) + "'"
		return g, g.open()
	}
	c := newC(t, Case{ID: "SF-08"}, newPool(t, target))
	first := c.POST("/fx/json").First(201)
	began := time.Now()
	c.Until("copy that is too old", func() bool {
		first.Retry().marked(201, `{"id":"1"}`)
		return time.Since(began) > 1500*time.Millisecond
	})
	c.Effects(1)
}

// What is deleted through one gateway another one does not replay: at once where the store
// announces it, and elsewhere when the copy is too old.
func TestPurgeAtAnotherGateway(t *testing.T) {
	for store, ttl := range map[string]float64{"redis": 3600, "sqlite": 0.2} {
		t.Run(store, func(t *testing.T) {
			target := gatewayTarget(store)
			var g *gateway
			target.Open = func(t testing.TB, s Spec) (_ Server, err error) {
				if g, err = newGateway(t, store, s); err != nil {
					return nil, err
				}
				g.store += fmt.Sprintf(", cache_ttl_s: %g", ttl)
				return g, g.open()
			}
			c := newC(t, Case{ID: "FX-15", Need: NeedNodes}, newPool(t, target))
			there, n := c.Node(1), 0
			c.Until("deleted result that another gateway runs again", func() bool {
				n++
				id := fmt.Sprintf("k%d", n)
				first := there.POST("/fx/json", key(id)).First(201)
				first.Retry().Replays(first)
				purge(t, g.nodes[0].admin, c.Tenant(), id)
				for began := time.Now(); time.Since(began) < time.Second; {
					if again := first.Retry(); again.Header.Get("Idempotent-Replayed") == "" {
						again.First(201)
						return true
					}
				}
				return false // on Redis: it did not listen yet
			})
		})
	}
}

// A gateway whose user of Redis may neither listen nor publish says once that it hears nothing.
// What it deletes itself is deleted all the same.
func TestGatewayThatMayNotListen(t *testing.T) {
	server := testserver.NewRedis(t, "--appendonly", "yes", "--user", "deaf", "on", "nopass", "~*", "+@all")
	target := gatewayTarget("redis")
	var g *gateway
	target.Open = func(t testing.TB, s Spec) (_ Server, err error) {
		if g, err = newGateway(t, "redis", s); err != nil {
			return nil, err
		}
		g.dsn = "redis://deaf:any@" + server.Addr
		g.store += ", cache_ttl_s: 3600"
		return g, g.open()
	}
	c := newC(t, Case{ID: "FX-15"}, newPool(t, target))
	first := c.POST("/fx/json", key("k")).First(201)
	first.Retry().Replays(first)
	warned := func() int {
		return strings.Count(g.Log(), `"level":"WARN","msg":"the cache does not hear what others change`)
	}
	c.Until("it warns", func() bool { return warned() > 0 })
	purge(t, g.nodes[0].admin, c.Tenant(), "k")
	first.Retry().First(201)
	if n := warned(); n != 1 {
		t.Errorf("it warned %d times", n)
	}
}

func purge(t *testing.T, admin, scope, key string) {
	t.Helper()
	to := fmt.Sprintf("http://%s/api/v1/keys/%s/%s?reason=tests", admin, url.PathEscape(scope), key)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		t.Fatalf("DELETE %s: %s", to, answer.Status)
	}
}
