package stet_test

import (
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// A waiter in the holder's own process learns of the result at once, even if the store does not
// tell of changes.
func TestSettlingWakesItsOwnProcess(t *testing.T) { // CC-03
	shelved(t, stet.Config{}, func(t *testing.T, _ *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		told := make(chan time.Time, 1)
		go func() {
			if d, err := e.Await(t.Context(), must(t, e, request("k"), stet.InProgress), time.Minute); err != nil || d.Verdict != stet.Replay {
				t.Errorf("%v, %v", d.Verdict, err)
			}
			told <- time.Now()
		}()
		after(10*time.Second + time.Millisecond) // between two looks
		settled := time.Now()
		if err := c.Settle(t.Context(), result("ok")); err != nil {
			t.Fatal(err)
		}
		if took := (<-told).Sub(settled); took > 0 {
			t.Errorf("told %s later", took)
		}
	})
}
