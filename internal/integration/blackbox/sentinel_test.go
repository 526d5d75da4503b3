package blackbox

import (
	"fmt"
	"testing"

	"github.com/stet-dev/stet/internal/integration/testserver"
)

// D11: a gateway that was given sentinels finds the server that took the place of the one that
// died, and its records there.
func TestSentinelFailover(t *testing.T) {
	master, replica := testserver.NewRedisPair(t)
	master.KeepLog(t)
	replica.KeepLog(t)
	sentinel := testserver.Sentinel(t, "main", master)
	sentinel.Lock(t, "guard") // S20
	target := gatewayTarget("redis")
	target.Open = func(t testing.TB, s Spec) (Server, error) {
		g, err := newGateway(t, "memory", s)
		if err != nil {
			return nil, err
		}
		g.dsn = "redis+sentinel://" + sentinel.Addr + "/main?sentinel_password=guard"
		return g, g.open()
	}
	c := newC(t, Case{ID: "D11", Need: NeedMetrics}, newPool(t, target))
	first := c.POST("/fx/json").First(201)
	replica.CatchUp(t, master)
	master.Kill(t)
	tries := 0
	c.Until("a new key is taken", func() bool {
		tries++
		return c.POST("/fx/json", key(fmt.Sprintf("after-%d", tries))).Status == 201
	})
	if tries == 1 {
		t.Error("the master was not missed: nothing was put to the test")
	}
	first.Retry().Replays(first)
}
