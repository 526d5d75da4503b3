package blackbox

import (
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/integration/badnet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
)

// A server that cannot be reached is asked for a while, and then left alone: requests are refused
// at once, and nothing runs. When it is back, a probe finds out, without a restart (SF-07, I7).
func TestBreaker(t *testing.T) {
	var network *badnet.Proxy
	target := gatewayTarget("postgres")
	target.Open = func(t testing.TB, s Spec) (Server, error) {
		g, err := newGateway(t, "postgres", s)
		if err != nil {
			return nil, err
		}
		addr := testserver.Postgres(t).Addr
		network = badnet.New(t, addr)
		g.dsn = strings.Replace(g.dsn, addr, network.Addr(), 1)
		return g, g.open()
	}
	const open, closed = 2, 0
	c := newC(t, Case{ID: "SF-07", Policy: "store: { timeout_s: 3 }", Need: NeedMetrics}, newPool(t, target))
	first := c.POST("/fx/json").First(201)
	if state := c.metric("idem_breaker_state"); state != closed {
		t.Fatalf("idem_breaker_state is %v from the start", state)
	}
	network.Refuse(true)
	network.Cut()
	c.Until("breaker that opens", func() bool {
		first.Retry().Problem("store-unavailable")
		return c.metric("idem_breaker_state") == open
	})
	began := time.Now()
	c.Named("during").POST("/fx/json").Problem("store-unavailable")
	tier.Took(t, "a request behind an open breaker, which does not ask the store", time.Since(began), 400*time.Millisecond)
	network.Refuse(false)
	c.Until("store that answers", func() bool { return first.Retry().Status == 201 })
	first.Retry().marked(201, `{"id":"1"}`)
	c.Until("breaker that closes", func() bool { return c.metric("idem_breaker_state") == closed })
	c.Named("after").POST("/fx/json").First(201)
	c.Effects(1)
	for _, line := range []string{`"breaker":"open"`, `"breaker":"half-open"`, `"breaker":"closed"`} {
		if !strings.Contains(c.srv.Log(), line) {
			t.Errorf("the log has no line with %s", line)
		}
	}
}
