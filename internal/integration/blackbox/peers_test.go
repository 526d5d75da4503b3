package blackbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/tier"
)

// Bugs that other implementations were seen to have, each as the scenario that shows it. The letter
// and number name the scenario in the comparison this list comes from.

// peer runs one scenario at a server of its own.
func peer(t *testing.T, target Target, row Case, run func(c *C)) {
	t.Parallel()
	row.ID = "peer"
	row.Need |= NeedOwn
	run(newC(t, row, newPool(t, target)))
}

// inMemory is the middleware with records in memory: where most of these bugs are.
func inMemory(t *testing.T, policy string, need Need, run func(c *C)) {
	peer(t, middlewareTarget("memory"), Case{Policy: policy, Need: need}, run)
}

// onDisk is the middleware with records that outlive it.
func onDisk(t *testing.T, policy string, need Need, run func(c *C)) {
	peer(t, middlewareTarget("sqlite"), Case{Policy: policy, Need: need}, run)
}

// T1: the result was stored with the request's context, which ends with the client; the retry ran
// again after the lease.
func TestPeer_ClientDisconnectAtCommit(t *testing.T) {
	inMemory(t, "", NeedClock, func(c *C) {
		ctx, cancel := context.WithCancel(c.ctx)
		gone := c.Begun("POST", "/fx/hang?obey", within(ctx))
		cancel()
		gone.Wait().Broken()
		c.Release(1)
		retry := func() *Answer { return c.POST("/fx/hang?obey") }
		c.settled(retry).marked(201, `{"id":"1"}`)
		c.Faults().Advance(2 * time.Minute) // past any lease
		retry().marked(201, `{"id":"1"}`)
		c.Effects(1)
	})
}

// T2: what had been written when the client vanished was stored as the whole response.
func TestPeer_TruncatedBodyReplayed(t *testing.T) {
	const whole = 655_360
	for name, policy := range map[string]string{"buffered": "", "streamed": "policy: {max_response_bytes: 1000}"} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, policy, 0, func(c *C) {
				path := fmt.Sprintf("/fx/large?bytes=%d&hold", whole)
				ctx, cancel := context.WithCancel(c.ctx)
				gone := c.Begun("POST", path, within(ctx))
				cancel()
				gone.Wait().Broken()
				c.Release(1)
				c.Left(1)
				a := c.settledOrUnknown(func() *Answer { return c.POST(path) })
				if a.Status == 409 && name == "streamed" {
					if code := a.document().Code; code != "result-not-retained" && code != "outcome-unknown" {
						a.fail("want what is true of a response that was not kept")
					}
				} else {
					a.marked(201, string(Pattern(whole)))
				}
				c.Effects(1)
			})
		})
	}
}

// T2: a response shorter than its own Content-Length was stored as a success.
func TestPeer_ShortResponseStored(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		first := c.POST("/fx/truncate?how=length")
		first.Broken()
		first.Retry().Problem("outcome-unknown")
		c.Effects(1)
	})
}

// T3: the whole 201 was at the client before it was stored; the next request got 409.
func TestPeer_ConflictAfterFullResponse(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		for i := range 50 {
			c.Named(i).Twice(201, "/fx/large?bytes=60000")
		}
	})
}

// T4: a handler slower than the lease lost its claim though no other request wanted it: 503, and
// the retry ran again.
func TestPeer_HandlerLongerThanLeaseUncontended(t *testing.T) {
	tier.Campaign(t, "a lease that a busy machine may renew too late")
	inMemory(t, "policy: {lease_s: 0.2}", 0, func(c *C) {
		c.Twice(201, "/fx/slow?ms=700")
		c.Effects(1)
	})
}

// T5: a duplicate took over from a handler that was still running.
func TestPeer_HandlerLongerThanLeaseContended(t *testing.T) {
	tier.Campaign(t, "a lease that a busy machine may renew too late")
	inMemory(t, "policy: {lease_s: 0.2}", 0, func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		began := time.Now()
		c.Until("three leases have passed", func() bool {
			c.POST("/fx/hang").Problem("in-progress")
			return time.Since(began) > 700*time.Millisecond
		})
		c.Release(1)
		owner.Wait().First(201)
		c.Effects(1)
	})
}

// T6: after a crash the request simply ran again.
func TestPeer_CrashReexecutes(t *testing.T) {
	onDisk(t, briefly, NeedKill, func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		c.srv.Kill(0)
		owner.Wait()
		c.srv.Start(0, briefly)
		c.lapsed(func() *Answer { return c.POST("/fx/hang") })
		c.Effects(1)
	})
}

// T7: WriteHeader(103) was taken for the final status; 201 became 200, and headers were lost.
func TestPeer_EarlyHintsCorruptStatus(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		first, _ := c.Twice(201, "/fx/early-hints")
		first.Has("X-Final", "201").Lacks("X-Hint")
		if len(first.Interim) != 1 || first.Interim[0].Status != 103 {
			first.fail("want the 103 too, got %v", first.Interim)
		}
	})
}

// T8: io.Copy found ReadFrom on the socket and went past the recorder: 200 for 201, and an empty
// replay.
func TestPeer_ReadFromBypassesCapture(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		first, _ := c.Twice(201, "/fx/copy")
		first.Says(strings.Repeat("0", 100_000))
	})
}

// T9: Flush reached the socket before the status did: 200 first, 201 on replay. Elsewhere it ended
// the capture, and the retry ran again.
func TestPeer_FlushThenMore(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		first, _ := c.Twice(201, "/fx/chunked")
		first.Says("piece 0\npiece 1\npiece 2\n")
		c.Effects(1)
	})
}

// T10: an expired token pinned its 401 to the key for a day.
func TestPeer_TransientStatusPoisonsKey(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		for _, status := range []int{401, 403, 407, 408, 421, 425, 429} {
			d := c.Named(status)
			done := d.POST(fmt.Sprintf("/fx/script/%d,201", status)).First(status).Retry().First(201)
			done.Retry().Replays(done)
		}
	})
}

// T11: a 503 was replayed for as long as records are kept, and that could not be changed.
func TestPeer_FailureCachedForEver(t *testing.T) {
	inMemory(t, release, 0, func(c *C) {
		done := c.POST("/fx/script/503,201").First(503).Retry().First(201)
		done.Retry().Replays(done)
	})
	t.Run("stated", func(t *testing.T) {
		inMemory(t, "", 0, func(c *C) { // proof beats policy
			c.Release(1)
			c.POST("/fx/second").First(503).Retry().First(201)
			c.Effects(1)
		})
	})
}
