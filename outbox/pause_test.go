package outbox

import (
	"testing"
	"time"
)

// Full jitter: from nothing to twice the last limit, and never more than MaxBackoff, however often.
func TestPause(t *testing.T) {
	w := Worker{Backoff: time.Second, MaxBackoff: time.Hour}
	for n, limit := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 12: 2048 * time.Second,
		13: time.Hour, 62: time.Hour, 1 << 40: time.Hour} {
		most := time.Duration(0)
		for range 500 {
			p := w.pause(n)
			if p < 0 || p > limit {
				t.Fatalf("after attempt %d: %s, of at most %s", n, p, limit)
			}
			most = max(most, p)
		}
		if most < limit/2 {
			t.Errorf("after attempt %d: never more than %s of %s", n, most, limit)
		}
	}
}
