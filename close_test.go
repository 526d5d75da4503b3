package stet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The memory of a claim is used again only if nothing can reach it any more.
func TestCloseKeepsWhatIsStillNeeded(t *testing.T) {
	going := func() *time.Timer { // an alarm that is going off cannot be taken back
		a := time.NewTimer(0)
		<-a.C
		return a
	}
	for name, c := range map[string]struct {
		before func(c *Claim)
		closes bool
	}{
		"settled":                {func(c *Claim) {}, true},
		"without Hold":           {func(c *Claim) { c.heartbeat = heartbeat{} }, true},
		"not settled":            {func(c *Claim) { c.settled = false }, false},
		"a write had no answer":  {func(c *Claim) { c.lost = true }, false},
		"someone writes":         {func(c *Claim) { c.busy = true }, false},
		"in a transaction":       {func(c *Claim) { c.joined = new(joinedTx) }, false},
		"the alarm is going off": {func(c *Claim) { c.heartbeat.alarm = going(); c.heartbeat.over = false; c.heartbeat.stop(nil) }, false},
		"it ended by itself": {func(c *Claim) {
			c.heartbeat.over = false
			c.heartbeat.alarm.Reset(time.Hour)
			_ = c.heartbeat.lapse(ErrAbandoned)
		}, false},
		"the heartbeat goes on":        {func(c *Claim) { c.heartbeat.quiet = false }, false},
		"the handler has not returned": {func(c *Claim) { c.heartbeat.attending = time.NewTimer(time.Hour) }, false},
		"closed before":                {func(c *Claim) { c.Close() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &Engine{cfg: Config{}.withDefaults()}
				policy := e.cfg.Policy
				claim := newClaim(e, &Record{}, &policy, time.Now(), time.Now())
				claim.Hold(t.Context(), nil)
				claim.heartbeat.stop(context.Canceled)
				claim.phase, claim.settled = ended, true
				state := claim.claimState
				if c.before(claim); claim.Close() != c.closes {
					t.Errorf("it closes: %v", !c.closes)
				}
				if c.closes && state.owner != nil {
					t.Error("the state has an owner")
				}
			})
		})
	}
}
