package stet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// A statement is about the execution that all its names fit. Anything else changes nothing.
func TestStatementsNameTheirExecution(t *testing.T) { // K01, A01
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		runs := 0
		unknown := func() stet.Head { // the next execution cannot tell what became of it
			c := must(t, e, request("k"), stet.Execute).Claim
			if h := c.Head(); h.DownstreamID != "" {
				t.Errorf("attempt %d has the id %s, which it has not reported", h.Attempt, h.DownstreamID)
			}
			runs++
			if err := c.Downstream(t.Context(), "order-1", fmt.Sprint("ch_", runs)); err != nil {
				t.Fatal(err)
			}
			c.Unknown("timeout")
			if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
				t.Fatal(err)
			}
			after(time.Minute)
			r, _ := s.read(c.ID())
			return r.Head
		}
		formerLife := unknown()
		free(t, e, formerLife.ID)
		after(stet.DefaultRetain)
		first := unknown()
		free(t, e, first.ID)
		now := unknown()
		if now.Attempt != 2 || first.Attempt != 1 || formerLife.Attempt != 1 || now.LifeKey() != first.LifeKey() || first.LifeKey() == formerLife.LifeKey() {
			t.Fatal("the story is another one")
		}
		happened := stet.Resolution{Response: &stet.Response{Status: 201}, Kept: stet.KeptStatus}
		for _, c := range []struct {
			name      string
			of        stet.Execution
			no, yes   error // for "nothing happened" and for "it happened"
			sentences string
		}{
			{"nothing", stet.Execution{}, stet.ErrUnnamed, stet.ErrUnnamed, "Stet-Fence"},
			{"a life", stet.Execution{DownstreamKey: now.LifeKey()}, stet.ErrUnnamed, nil, "may be an earlier attempt's"},
			{"another life", stet.Execution{DownstreamKey: formerLife.LifeKey()}, stet.ErrUnnamed, stet.ErrOtherRun, ""},
			{"a key that the handler chose", stet.Execution{DownstreamKey: "order-1"}, stet.ErrUnnamed, stet.ErrUnnamed, "Stet-Fence"},
			{"its id", stet.Execution{DownstreamID: "ch_3"}, stet.ErrUnnamed, nil, "may be an earlier attempt's"},
			{"the id of the attempt before", stet.Execution{DownstreamID: "ch_2"}, stet.ErrUnnamed, stet.ErrOtherRun, ""},
			{"that key, and its id", stet.Execution{DownstreamKey: "order-1", DownstreamID: "ch_3"}, stet.ErrUnnamed, nil, "Stet-Fence"},
			{"its fence, and another id", stet.Execution{Fence: now.Fence(), DownstreamID: "ch_2"}, stet.ErrOtherRun, stet.ErrOtherRun, ""},
			{"its fence, and that key", stet.Execution{Fence: now.Fence(), DownstreamKey: "order-1"}, nil, nil, ""},
			{"its fence, and another key", stet.Execution{Fence: now.Fence(), DownstreamKey: "order-2"}, stet.ErrOtherRun, stet.ErrOtherRun, ""},
			{"its fence", stet.Execution{Fence: now.Fence()}, nil, nil, ""},
			{"the fence of the attempt before", stet.Execution{Fence: first.Fence()}, stet.ErrOtherRun, stet.ErrOtherRun, ""},
			{"the fence of another life", stet.Execution{Fence: formerLife.Fence()}, stet.ErrOtherRun, stet.ErrOtherRun, ""},
			{"its version", stet.Execution{Version: now.Version}, nil, nil, ""},
			{"a version before", stet.Execution{Version: first.Version}, stet.ErrStale, stet.ErrStale, ""},
			{"its fence, and a version before", stet.Execution{Fence: now.Fence(), Version: first.Version}, stet.ErrStale, stet.ErrStale, ""},
			{"its fence, and another life", stet.Execution{Fence: now.Fence(), DownstreamKey: formerLife.LifeKey()}, stet.ErrOtherRun, stet.ErrOtherRun, ""},
			{"its version, and the fence before", stet.Execution{Version: now.Version, Fence: first.Fence()}, stet.ErrOtherRun, stet.ErrOtherRun, ""},
		} {
			for want, r := range map[*error]stet.Resolution{&c.no: {}, &c.yes: happened} {
				_, err := e.Operator().Resolve(t.Context(), now.ID, c.of, r, note)
				if !errors.Is(err, *want) || err != nil && errors.Is(err, stet.ErrUnnamed) && !strings.Contains(err.Error(), c.sentences) {
					t.Errorf("%s, response %v: %v, want %v", c.name, r.Response, err, *want)
				}
				have, _ := s.read(now.ID)
				if (err == nil) != (have.State != stet.Unknown) {
					t.Errorf("%s, response %v: it is %s", c.name, r.Response, have.State)
				}
				s.change(now.ID, func(r *stet.Record) { // as it was
					asOf := r.AsOf
					r.Head, r.Body = now, stet.Body{}
					r.AsOf = asOf
				})
			}
		}
		s.change(now.ID, func(r *stet.Record) { r.Point = "ship" })
		_, err := e.Operator().Resolve(t.Context(), now.ID, stet.Execution{DownstreamID: "ch_3"}, happened, note)
		if !errors.Is(err, stet.ErrUnnamed) || !strings.Contains(err.Error(), "effect before it") {
			t.Errorf("an id at a recovery point: %v", err)
		}
	})
}

// That an execution of a former life had its effect says nothing about this one.
func TestAnEffectOfAFormerLife(t *testing.T) { // K01
	observe := func(ev stet.Event) {
		if ev.Kind == stet.DoubleEffect {
			t.Error("it is told as a double effect")
		}
	}
	shelved(t, stet.Config{Observe: observe}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		former := must(t, e, request("k"), stet.Execute).Claim
		_ = former.Settle(t.Context(), result("ok"))
		after(stet.DefaultRetain)
		c := must(t, e, request("k"), stet.Execute).Claim
		c.Unknown("timeout")
		_ = c.Settle(t.Context(), stet.Outcome{})
		happened := stet.Resolution{Response: &stet.Response{Status: 201}}
		if _, err := e.Operator().Resolve(t.Context(), c.ID(), stet.Execution{Fence: former.Fence()}, happened, note); !errors.Is(err, stet.ErrOtherRun) {
			t.Error(err)
		}
		after(2 * time.Minute)
		if r, _ := s.read(c.ID()); r.Cause != "timeout" {
			t.Errorf("it has the cause %q", r.Cause)
		}
	})
}

// A probe says whether it happened; the handler's answer, which came too late, is what retries get.
func TestEvidenceAdoptsTheAnswerThatIsHeld(t *testing.T) { // K02
	for name, r := range map[string]stet.Resolution{
		"a probe":            {Response: &stet.Response{Status: 200, Body: []byte("found")}, Substitute: true},
		"the status alone":   {Response: &stet.Response{Status: 200}, Kept: stet.KeptStatus},
		"the answer itself":  {Response: &stet.Response{Status: 201, Body: []byte("paid")}},
		"another answer":     {Response: &stet.Response{Status: 201, Body: []byte("other")}},
		"that it was denied": {Response: &stet.Response{Status: 402}, Kept: stet.KeptStatus},
	} {
		shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
			c := must(t, e, request("k"), stet.Execute).Claim
			after(stet.DefaultLease)
			must(t, e, request("k"), stet.Unresolved)
			if err := c.Settle(t.Context(), result("paid")); !errors.Is(err, stet.ErrFenced) {
				t.Fatal(err)
			}
			h := c.Head()
			head, err := e.Operator().Resolve(t.Context(), c.ID(), h.Execution(), r, note)
			if name == "another answer" || name == "that it was denied" {
				if !errors.Is(err, stet.ErrContradicted) || head.State != stet.Unknown {
					t.Errorf("%s: %v, %v", name, head.State, err)
				}
				return
			}
			if err != nil || !head.Reconciled {
				t.Fatal(name, err)
			}
			if d := must(t, e, request("k"), stet.Replay); d.Record.Status != 201 || string(d.Record.Response.Body) != "paid" {
				t.Errorf("%s: retries get %d %s", name, d.Record.Status, d.Record.Response.Body)
			}
		})
	}
}

// A result that becomes known late is kept as long as one that did not, however it became known,
// and never for no time at all.
func TestRetentionIsCountedInOnePlace(t *testing.T) { // X04, K18
	const retain = time.Hour
	for _, c := range []struct {
		name string
		age  time.Duration // of the record when its result becomes known
		want time.Duration // from then on
	}{{"soon", 10 * time.Minute, 50 * time.Minute}, {"late", 55 * time.Minute, 15 * time.Minute}, {"later than it is kept", 2 * retain, 15 * time.Minute}} {
		for how, end := range map[string]func(t *testing.T, e *stet.Engine, c *stet.Claim){
			"by its holder": func(t *testing.T, _ *stet.Engine, c *stet.Claim) {
				c.Completed()
				if err := c.Settle(t.Context(), result("paid")); err != nil {
					t.Fatal(err)
				}
			},
			"by evidence": func(t *testing.T, e *stet.Engine, c *stet.Claim) {
				h := c.Head()
				r := stet.Resolution{Response: &stet.Response{Status: 201}}
				if _, err := e.Operator().Resolve(t.Context(), c.ID(), h.Execution(), r, note); err != nil {
					t.Fatal(err)
				}
			},
		} {
			policy := stet.Policy{Rules: stet.Rules{Retain: retain, FromCreation: true}}
			shelved(t, stet.Config{Policy: policy}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				claim := must(t, e, request("k"), stet.Execute).Claim
				claim.Unknown("timeout")
				if err := claim.Settle(t.Context(), stet.Outcome{}); err != nil {
					t.Fatal(err)
				}
				after(c.age)
				end(t, e, claim)
				if r, _ := s.read(claim.ID()); r.State != stet.Completed || !r.DueAt.Equal(time.Now().Add(c.want)) {
					t.Errorf("%s, %s: %s until %v from now, want %v", c.name, how, r.State, time.Until(r.DueAt), c.want)
				}
			})
		}
	}
}

// The key for systems further down is the record's, also after Close, and stays what it was from
// release to release: a provider may have been sent it.
func TestDownstreamKey(t *testing.T) { // N03
	golden := stet.Head{ID: stet.ID{Scope: "tenant", Key: "k-1"}, Tag: "k_0123456789abcdef", CreatedAt: time.UnixMicro(1767225600123456)}
	if got := golden.LifeKey(); got != "ASNFZ4mrze-vkLy93QirgrD45D_hqVMPqt9knYZEgt4" {
		t.Errorf("%s", got)
	}
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		seen := map[string]bool{}
		for _, key := range []string{"k", "l"} {
			c := must(t, e, request(key), stet.Execute).Claim
			sent := c.DownstreamKey()
			r, _ := s.read(c.ID())
			if err := c.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err != nil {
				t.Fatal(err)
			}
			if seen[sent] = true; sent != r.LifeKey() || !c.Close() || c.DownstreamKey() != sent {
				t.Errorf("%s, and after Close %s; the record has %s", sent, c.DownstreamKey(), r.LifeKey())
			}
		}
		if len(seen) != 2 {
			t.Errorf("two keys have %v", seen)
		}
	})
}

// What was found to have happened after its key was freed is not lost: no retry runs, and the
// record says who has found it.
func TestFoundAfterTheKeyWasFreed(t *testing.T) { // K03c, I14
	happened := stet.Resolution{Response: &stet.Response{Status: 201, Body: []byte("paid")}}
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		c.Unknown("timeout")
		if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
			t.Fatal(err)
		}
		after(time.Minute)
		free(t, e, c.ID())
		freed, _ := s.read(c.ID())
		of := freed.Execution()
		notice := stet.Note{Who: "provider", Why: "notice", Evidence: "evt_1"}
		for range 2 { // it comes again before the first is stored
			if _, err := e.Operator().Resolve(t.Context(), c.ID(), of, happened, notice); !errors.Is(err, stet.ErrState) {
				t.Fatal(err)
			}
		}
		if err := e.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		have, _ := s.read(c.ID())
		if have.State != stet.Unknown || have.Cause != "contradicted" || have.Late().IsZero() || have.Status != 201 ||
			have.Note == nil || have.Note.Who != "provider" || !strings.Contains(have.Note.Evidence, "evt_1") {
			t.Fatalf("%s, %q, %+v", have.State, have.Cause, have.Note)
		}
		must(t, e, request("k"), stet.Unresolved)
		if _, err := e.Operator().Resolve(t.Context(), c.ID(), have.Execution(), stet.Resolution{}, note); !errors.Is(err, stet.ErrContradicted) {
			t.Errorf("it is freed again: %v", err)
		}
		status := stet.Resolution{Response: &stet.Response{Status: 201}, Kept: stet.KeptStatus}
		if _, err := e.Operator().Resolve(t.Context(), c.ID(), have.Execution(), status, note); err != nil {
			t.Error(err)
		}
	})
}
