package blackbox

import (
	"strings"
	"testing"
	"time"
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
