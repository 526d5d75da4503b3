package figures

import (
	"testing"
	"testing/synctest"
	"time"
)

// A store stamps a call at some moment of it: only an instant outside of the call corrects the
// board's time, and what a client did after its key was reserved is not shown as done before.
func TestTuneWithinACall(t *testing.T) {
	const call = 300 * time.Millisecond
	for _, test := range []struct{ stamped, by time.Duration }{ // since the call was made
		{0, 0}, {call / 2, 0}, {call, 0}, {-20 * time.Millisecond, -20 * time.Millisecond}, {call + 50*time.Millisecond, 50 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := time.Now()
			c := clock{own: asked, local: asked}
			time.Sleep(call)
			if by := c.tune(asked.Add(test.stamped), asked); by != test.by {
				t.Errorf("stamped after %s: corrected by %s, want %s", test.stamped, by, test.by)
			}
			if now := c.store(time.Now()); !now.Equal(asked.Add(call + test.by)) {
				t.Errorf("stamped after %s: it is %s, and %s for the board", test.stamped, asked.Add(call), now)
			}
		})
	}
}
