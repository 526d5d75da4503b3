package maintenance

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
)

// A loop takes new settings without a gap: the pause goes on from the last round, however often they change.
func TestRunnerTakesNewSettings(t *testing.T) { // D01
	synctest.Test(t, func(t *testing.T) {
		d := &due{state: stet.Running}
		e, r, ended := engine(t, d), Runner{}, make(chan error, 1)
		go func() { ended <- r.Run(t.Context()) }()
		batch := 0 // of the last round
		rounds := func(within time.Duration) int {
			t.Helper()
			time.Sleep(within) // the bubble's clock
			synctest.Wait()
			d.mu.Lock()
			defer d.mu.Unlock()
			n := len(d.asked)
			if d.asked = nil; n > 0 {
				batch = d.limits[len(d.limits)-1]
			}
			return n
		}
		set := func(l Loop) {
			t.Helper()
			if err := r.Set(l); err != nil {
				t.Fatal(err)
			}
		}
		if n := rounds(time.Hour); n != 0 {
			t.Errorf("%d rounds without a loop", n)
		}
		set(Sweeper{Engine: e, Every: time.Hour})
		rounds(time.Minute) // the first is overdue
		for range 20 {      // each change comes before a whole pause is over
			set(Sweeper{Engine: e, Every: time.Minute})
			time.Sleep(40 * time.Second)
		}
		if n := rounds(0); n < 6 {
			t.Errorf("%d rounds in 13 minutes of a loop that is changed every 40 s and comes every minute", n)
		}
		set(Sweeper{Engine: e, Every: time.Hour})
		rounds(2 * time.Minute)
		set(Sweeper{Engine: e, Every: time.Second, Batch: 7})
		if n := rounds(10 * time.Second); n < 8 || batch != 7 {
			t.Errorf("%d rounds in 10 s of a loop that comes every second, of %d records", n, batch)
		}
		if err := r.Set(Sweeper{Engine: e, Every: -1}); err == nil || !strings.Contains(err.Error(), "Every is -1ns") {
			t.Errorf("a setting that cannot be used: %v", err)
		}
		if n := rounds(10 * time.Second); n < 8 {
			t.Errorf("%d rounds in 10 s after a setting that cannot be used", n)
		}
		set(nil)
		if n := rounds(time.Hour); n != 0 {
			t.Errorf("%d rounds of a loop that was ended", n)
		}
	})
}
