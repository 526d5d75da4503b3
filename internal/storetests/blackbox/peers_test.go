package blackbox

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Bugs that other implementations were seen to have, each as the scenario that shows it. The letter and number name the
// scenario in the comparison this list comes from.

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

// T1: the result was stored with the request's context, which ends with the client; the retry ran again after the lease.
func TestPeer_ClientDisconnectAtCommit(t *testing.T) {
	inMemory(t, "", NeedFaults, func(c *C) {
		ctx, cancel := context.WithCancel(c.ctx)
		gone := c.Start("POST", "/fx/hang?obey", within(ctx))
		c.Entered(1)
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
				gone := c.Start("POST", path, within(ctx))
				c.Entered(1)
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

// T4: a handler slower than the lease lost its claim though nobody else wanted it: 503, and the retry ran again.
func TestPeer_HandlerLongerThanLeaseUncontended(t *testing.T) {
	inMemory(t, "policy: {lease_s: 0.2}", 0, func(c *C) {
		c.Twice(201, "/fx/slow?ms=700")
		c.Effects(1)
	})
}

// T5: a duplicate took over from a handler that was still running.
func TestPeer_HandlerLongerThanLeaseContended(t *testing.T) {
	inMemory(t, "policy: {lease_s: 0.2}", 0, func(c *C) {
		owner := c.Start("POST", "/fx/hang")
		c.Entered(1)
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
		owner := c.Start("POST", "/fx/hang")
		c.Entered(1)
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

// T8: io.Copy found ReadFrom on the socket and went past the recorder: 200 for 201, and an empty replay.
func TestPeer_ReadFromBypassesCapture(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		first, _ := c.Twice(201, "/fx/copy")
		first.Says(strings.Repeat("0", 100_000))
	})
}

// T9: Flush reached the socket before the status did: 200 first, 201 on replay. Elsewhere it ended the capture, and the
// retry ran again.
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
		for _, status := range []int{401, 403, 407, 408, 425, 429} {
			d := c.Named(status)
			done := d.POST(fmt.Sprintf("/fx/script/%d,201", status)).First(status).Retry().First(201)
			done.Retry().Replays(done)
		}
	})
}

// T11: a 503 was replayed for as long as records are kept, and nobody could change that.
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

// T12: the key alone was looked up: another path, or another tenant, got the first one's answer, its cookie included.
func TestPeer_SameKeyElsewhereLeaks(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		first := c.POST("/fx/json", body(`{"pay":10}`)).First(201)
		for _, o := range [][]option{at("/fx/refund"), opts(body(`{"pay":9000}`)), opts(sends("PUT", "/fx/json"))} {
			a := first.Retry(o...)
			a.Problem("key-reused")
			if a.Lacks("Set-Cookie", "Location", "ETag"); bytes.Contains(a.Body, first.Body) {
				a.fail("the first response shows")
			}
		}
		first.Retry(as(c.who("t2:u1"))).First(201).Says(`{"id":"2"}`)
		c.Effects(2)
	})
}

// T12: the same key with another body ran as if it were another key.
func TestPeer_MisuseNotDetected(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		c.differ("amount", opts(body(`{"amount":1}`)), bodies(`{"amount":2}`)...)
	})
}

// T13: a finisher whose lease was over wrote over the record of the one that had taken over.
func TestPeer_LateFinisherOverwrites(t *testing.T) {
	inMemory(t, "policy: {on_lease_expiry: reexecute}", NeedFaults, func(c *C) {
		late := c.Start("POST", "/fx/hang")
		c.Entered(1)
		c.Faults().Advance(2 * time.Minute)
		second := c.Start("POST", "/fx/hang")
		c.Entered(2)
		c.Release(2) // in whatever order they settle
		late.Wait()
		done := second.Wait().First(201).Says(`{"id":"2"}`)
		done.Retry().Replays(done)
		c.Effects(2) // the policy's price, and the reason it is not the default
	})
	t.Run("default", func(t *testing.T) {
		inMemory(t, "", NeedFaults, func(c *C) {
			late := c.Start("POST", "/fx/hang")
			c.Entered(1)
			c.Faults().Advance(2 * time.Minute)
			c.POST("/fx/hang").Problem("outcome-unknown")
			c.Release(1)
			late.Wait()
			c.POST("/fx/hang").Problem("outcome-unknown")
			c.Effects(1)
		})
	})
}

// T14: a waiter that gave up deleted the running claim, and the next request ran beside it.
func TestPeer_WaiterDeletesClaim(t *testing.T) {
	inMemory(t, "policy: {wait_policy: wait, wait_timeout_s: 0.1}", 0, func(c *C) {
		owner := c.Start("POST", "/fx/hang")
		c.Entered(1)
		for range 3 {
			c.POST("/fx/hang").Problem("in-progress")
		}
		c.Release(1)
		first := owner.Wait().First(201)
		first.Retry().Replays(first)
		c.Effects(1)
	})
}

// A waiter hung on a mutex: no timeout, and a client that left did not end it.
func TestPeer_WaitWithoutEnd(t *testing.T) {
	inMemory(t, "policy: {wait_policy: wait, wait_timeout_s: 0.2}", 0, func(c *C) {
		owner := c.Start("POST", "/fx/hang")
		c.Entered(1)
		c.POST("/fx/hang").Problem("in-progress")
		ctx, cancel := context.WithTimeout(c.ctx, 50*time.Millisecond)
		defer cancel()
		c.POST("/fx/hang", within(ctx)).Broken()
		c.Release(1)
		owner.Wait().First(201)
	})
}

// T15: a panic left the lock: 409 until it expired, which one of them never did. Others freed the key, and the retry ran.
func TestPeer_PanicLeaksLock(t *testing.T) {
	inMemory(t, "", 0, func(c *C) { givesUp(c, "/fx/panic?when=after") })
}

// T15: runtime.Goexit is no panic to recover.
func TestPeer_GoexitLeaksLock(t *testing.T) {
	inMemory(t, "", 0, func(c *C) { givesUp(c, "/fx/goexit") })
}

// T16: with the store down, requests ran unprotected, and no setting prevented it. One answered 409 instead.
func TestPeer_StoreDownFailsOpen(t *testing.T) {
	inMemory(t, "", NeedFaults, func(c *C) {
		c.Faults().Down()
		for range 3 {
			c.POST("/fx/json").Problem("store-unavailable")
		}
		c.Effects(0)
		c.Faults().Up()
		c.Twice(201, "/fx/json")
		c.Faults().Down()
		c.POST("/fx/json").Problem("store-unavailable") // nor is a result replayed that cannot be read
		c.Effects(1)
	})
}

// T16: the store failed after the effect: 500 to the client, nothing stored, and the retry ran again.
func TestPeer_SaveFailureReexecutes(t *testing.T) {
	inMemory(t, "", NeedFaults, func(c *C) {
		c.Faults().FailComplete(true)
		first := c.POST("/fx/json").First(201).Says(`{"id":"1"}`)
		first.Retry().Problem("in-progress")
		c.Faults().Advance(2 * time.Minute)
		first.Retry().Problem("outcome-unknown")
		c.Effects(1)
	})
}

// T17: the reservation was stored and its reply lost; the request then met its own record and was told 409.
func TestPeer_LostReplyMeetsItself(t *testing.T) {
	inMemory(t, "", NeedFaults, func(c *C) {
		for every := 2; every <= 4; every++ {
			c.Faults().LoseReplies(every)
			for i := range 6 {
				d := c.Named(fmt.Sprint(every, "-", i))
				first := d.POST("/fx/json").First(201)
				d.settled(func() *Answer { return first.Retry() }).marked(201, string(first.Body))
				d.Effects(1)
			}
		}
	})
}

// T18: a client library that writes the same JSON in another order was told 422.
func TestPeer_ReserialisedJSONRefused(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		c.same("order", opts(body(`{"amount":100.0,"to":{"iban":"x","name":"é"}}`)),
			bodies("{\"to\": {\"name\": \"\\u00e9\", \"iban\": \"x\"},\n \"amount\": 1e2}")...)
	})
}

// T19: two honest requests with the same body and different keys: the second one was refused.
func TestPeer_SameBodyOtherKeyRefused(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		c.POST("/fx/json", key("one")).First(201)
		c.POST("/fx/json", key("two")).First(201)
		c.Effects(2)
	})
}

// T20: a changed hash setting made stored results look corrupt; they were deleted, and their requests ran again.
func TestPeer_ConfigChangeReexecutes(t *testing.T) {
	onDisk(t, "policy: {fingerprint: {body: raw}}", NeedKill, func(c *C) {
		first := c.POST("/fx/json", body(`{"a":1,"b":2}`)).First(201)
		for _, policy := range []string{"", "policy: {fingerprint: {body: fields, fields: [/b]}}", "policy: {fingerprint: {headers: [Accept]}}"} {
			c.srv.Kill(0)
			c.srv.Start(0, policy)
			first.Retry().Replays(first)
			first.Retry(body(`{"a":3,"b":2}`)).Problem("key-reused")
		}
		c.Effects(1)
	})
}

// T21: a response too large to keep freed the key.
func TestPeer_OversizeReexecutes(t *testing.T) {
	inMemory(t, "policy: {max_response_bytes: 1000}", 0, func(c *C) {
		first := c.POST("/fx/large?bytes=2000000").First(201).Says(string(Pattern(2_000_000)))
		for range 3 {
			c.settledOrUnknown(func() *Answer { return first.Retry() }).Problem("result-not-retained")
		}
		c.Effects(1)
	})
}

// T23: a request over the size limit was locked first and refused then: 409 until the lock expired.
func TestPeer_LargeRequestLeavesLock(t *testing.T) {
	inMemory(t, "policy: {max_body_bytes: 100}", 0, func(c *C) {
		c.POST("/fx/json", body(string(Pattern(101)))).Problem("payload-too-large")
		c.POST("/fx/json", body(string(Pattern(101))), chunked).Problem("payload-too-large")
		c.Records(0)
		c.POST("/fx/json").First(201)
	})
}

// T24: MySQL reports no row for an update that changes nothing, which was taken for a lost lease.
func TestPeer_NoopRenewLosesLease(t *testing.T) {
	t.Skip("MySQL belongs to the issue of the SQL servers")
}

// T25: one number was both the lease and the retention: a crash blocked its key for a day, in one report for three.
func TestPeer_CrashBlocksKeyForRetention(t *testing.T) {
	onDisk(t, "policy: {lease_s: 1, default_ttl_s: 2592000}", NeedKill, func(c *C) {
		owner := c.Start("POST", "/fx/hang")
		c.Entered(1)
		c.srv.Kill(0)
		owner.Wait()
		c.srv.Start(0, c.row.Policy)
		c.lapsed(func() *Answer { return c.POST("/fx/hang") }) // in a second, and it says what is true
	})
}

// T26: the lock was a mutex of the process: two processes on one store, two executions.
func TestPeer_TwoInstancesOneStore(t *testing.T) {
	inMemory(t, "", NeedNodes, func(c *C) { racersConflict(c, []*C{c.Node(0), c.Node(1)}) })
}

// Of several Idempotency-Key lines the first one counted, where a proxy in front may have looked at the last.
func TestPeer_FirstKeyLineWins(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		c.POST("/fx/json", key(`"a"`, `"b"`)).Problem("invalid-key")
		c.Effects(0)
	})
}

// Headers that were not on an allow-list were missing from the first response too; others kept the status and lost them on
// replay.
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

// The payload was not compared on the quick path: while the first request ran, or once its result was cached.
func TestPeer_PayloadCheckSkipped(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		owner := c.Start("POST", "/fx/hang")
		c.Entered(1)
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

// GET was guarded too: a page was frozen for whoever sent a key.
func TestPeer_GetIsFrozen(t *testing.T) {
	inMemory(t, "", 0, func(c *C) {
		c.Do("GET", "/fx/count", body("")).Passed(200).Says("0")
		c.POST("/fx/json").First(201)
		c.Do("GET", "/fx/count", body("")).Passed(200).Says("1")
	})
}

// The sweep that frees memory removed the lock of a request that was still running.
func TestPeer_CleanupForgetsRunning(t *testing.T) {
	inMemory(t, "", NeedFaults, func(c *C) {
		owner := c.Start("POST", "/fx/hang")
		c.Entered(1)
		c.Faults().Advance(40 * day)
		c.POST("/fx/hang").Problem("outcome-unknown")
		c.Release(1)
		owner.Wait()
		c.Effects(1)
	})
}

// The record vanished between a refused reservation and its reading; the request then ran without any reservation.
func TestPeer_VanishedRecordRunsUnclaimed(t *testing.T) {
	inMemory(t, "", NeedFaults, func(c *C) {
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
		owner := c.Start("POST", "/fx/hang")
		c.Entered(1)
		c.POST("/fx/hang").Problem("in-progress")
		c.POST("/fx/hang", body("{}")).Problem("key-reused")
		c.POST("/fx/hang", noKey).Problem("missing-key")
		c.Release(1)
		owner.Wait().First(201)
	})
}
