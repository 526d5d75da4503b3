package reconcile

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
)

// A12: what LastProbe says is when the last probe is made, so that a Settle up to it can be over
// while probes are still made.
func TestLastProbeIsMadeThen(t *testing.T) {
	for _, probes := range []int{1, 2, 3, defaultMaxProbes} {
		synctest.Test(t, func(t *testing.T) {
			w := newWard(t, 1)
			var first, last time.Time
			w.keep(1, Reconciler{MaxProbes: probes, Every: time.Second, Settle: stet.Never,
				Resolver: Resolver(func(context.Context, stet.Head) (Finding, error) {
					if last = time.Now(); first.IsZero() {
						first = last
					}
					return Finding{}, nil
				})}, time.Hour)
			if got, want := last.Sub(first), LastProbe(probes); got < want || got > want+time.Minute {
				t.Errorf("the last of %d probes is made %s after the first, and LastProbe says %s", probes, got, want)
			}
		})
	}
	if got := LastProbe(math.MaxInt); got != math.MaxInt64 {
		t.Errorf("the last of very many probes is made after %s", got)
	}
}
