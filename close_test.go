package stet

import (
	"context"
	"errors"
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
		"a write in a transaction had no answer": {func(c *Claim) {
			c.joined, c.busy = &joinedTx{store: speechless{}}, true
			c.mu.Lock()
			_ = c.putIn(context.Background(), &Head{}, nil)
			c.mu.Unlock()
			c.joined, c.busy = nil, false
		}, false},
		"the heartbeat goes on":        {func(c *Claim) { c.heartbeat.quiet = false }, false},
		"the handler has not returned": {func(c *Claim) { c.heartbeat.attending = time.NewTimer(time.Hour) }, false},
		"closed before":                {func(c *Claim) { c.Close() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &Engine{cfg: Config{}.withDefaults(), tags: newTags(nil)}
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

// speechless answers no write.
type speechless struct{ Store }

func (speechless) Replace(context.Context, Version, Head, *Body) (Head, error) {
	return Head{}, errors.New("no answer")
}

// An alarm that has gone off may come to its claim's memory when the claim is closed, and when
// another claim has it. It does nothing then.
func TestALateAlarmFindsNoClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Engine{cfg: Config{}.withDefaults(), tags: newTags(nil)}
		policy := e.cfg.Policy
		claim := newClaim(e, &Record{}, &policy, time.Now(), time.Now())
		claim.Hold(t.Context(), nil)
		claim.heartbeat.stop(context.Canceled)
		claim.phase, claim.settled = ended, true
		state := claim.claimState
		if !claim.Close() {
			t.Fatal("it is not closed")
		}
		state.tick()
		other := &Claim{claimState: state, e: e}
		state.owner, state.policy, state.renewed = other, policy, time.Now()
		state.tick()
		if state.heartbeat.over || state.busy {
			t.Error("the alarm of another claim was heeded")
		}
	})
}
