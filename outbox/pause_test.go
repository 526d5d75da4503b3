package outbox

import (
	"context"
	"testing"
	"time"
)

// Full jitter: from nothing to twice the last limit, and never more than MaxBackoff, however often.
func TestBackoff(t *testing.T) {
	w := Worker{Backoff: time.Second, MaxBackoff: time.Hour}
	for n, limit := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 12: 2048 * time.Second,
		13: time.Hour, 62: time.Hour, 1 << 40: time.Hour} {
		most := time.Duration(0)
		for range 500 {
			p := w.backoff(n)
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

// A hint that there is something to do ends a pause; the end of a delivery does too, and says
// nothing.
func TestRest(t *testing.T) {
	token := make(chan struct{}, 1)
	token <- struct{}{}
	for _, c := range []struct {
		name string
		run  *run
		want bool
	}{
		{"Wake", &run{Worker: Worker{Wake: token}}, true},
		{"Listen", &run{heard: token}, true},
		{"delivery", &run{ended: token}, false},
	} {
		if woken := c.run.rest(t.Context(), time.Hour); woken != c.want || len(token) != 0 {
			t.Errorf("%s: woken %t", c.name, woken)
		}
		token <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := (&run{}); r.rest(ctx, time.Hour) {
		t.Error("woken by the end")
	}
}
