package blackbox

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// Bugs that have no number in the comparison.

// Of several Idempotency-Key lines the first one counted, where a proxy in front may have looked at
// the last.
func TestPeer_FirstKeyLineWins(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		c.POST("/fx/json", key(`"a"`, `"b"`)).Problem("invalid-key")
		c.Effects(0)
	})
}

// Headers that were not on an allow-list were missing from the first response too; others kept the
// status and lost them on replay.
func TestPeer_HeadersLost(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		first, _ := c.Twice(201, "/fx/headers")
		first.Has("X-Request-Cost", "12").Has("Location", "/things/1?a=1&b=2").Has("Vary", "Accept", "Accept-Language", "X-Tenant")
	})
}

// A replay had another status than its first response.
func TestPeer_WrongStatusOnReplay(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		for _, status := range []int{200, 202, 204, 303, 404, 422, 500} {
			c.Named(status).Twice(status, fmt.Sprintf("/fx/status/%d", status))
		}
	})
}

// Only the first bytes of a large body were compared.
func TestPeer_LargeBodiesDifferAtTheEnd(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		one := Pattern(900_000)
		two := bytes.Clone(one)
		two[len(two)-1] ^= 1
		for _, media := range []string{"application/octet-stream", "application/json"} {
			c.differ(media, opts(ctype(media), body(string(one))), opts(ctype(media), body(string(two))))
		}
	})
}

// The payload was not compared on the quick path: while the first request ran, or once its result
// was cached.
func TestPeer_PayloadCheckSkipped(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		c.POST("/fx/hang", body("{}")).Problem("key-reused")
		c.Release(1)
		first := owner.Wait().First(201)
		for range 3 {
			first.Retry().Replays(first)
			first.Retry(body("{}")).Problem("key-reused")
		}
	})
}

// Any exception freed the key, though the effect had happened.
func TestPeer_FailureAfterEffectFreesKey(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		for _, path := range []string{"/fx/status/500", "/fx/abort", "/fx/panic?when=after", "/fx/outcome/unknown"} {
			d := c.Named(path[4:])
			d.POST(path).Retry()
			d.Effects(1)
		}
	})
}

// GET was guarded too: a page was frozen for every client that sent a key.
func TestPeer_GetIsFrozen(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		c.Do("GET", "/fx/count", body("")).Passed(200).Says("0")
		c.POST("/fx/json").First(201)
		c.Do("GET", "/fx/count", body("")).Passed(200).Says("1")
	})
}

// The sweep that frees memory removed the lock of a request that was still running.
func TestPeer_CleanupForgetsRunning(t *testing.T) {
	inMemory(t, "", NeedClock, func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		c.Faults().Advance(40 * day)
		c.POST("/fx/hang").Problem("outcome-unknown")
		c.Release(1)
		owner.Wait()
		c.Effects(1)
	})
}

// The record vanished between a refused reservation and its reading; the request then ran without
// any reservation.
func TestPeer_VanishedRecordRunsUnclaimed(t *testing.T) {
	inMemory(t, "", NeedClock, func(c *C) {
		for round := 1; round <= 20; round++ {
			c.count(take(c.Race(6, "POST", "/fx/json"), 6))
			c.Effects(round)
			c.Faults().Advance(25 * time.Hour)
		}
	})
}

// 409 came without Retry-After, and refusals without any body.
func TestPeer_BareRefusals(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		c.POST("/fx/hang").Problem("in-progress")
		c.POST("/fx/hang", body("{}")).Problem("key-reused")
		c.POST("/fx/hang", noKey).Problem("missing-key")
		c.Release(1)
		owner.Wait().First(201)
	})
}
