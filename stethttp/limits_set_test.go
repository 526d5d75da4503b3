package stethttp_test

import (
	"testing"

	"github.com/stet-dev/stet/stethttp"
)

// Limits that get another configuration keep what they know: what is held still counts, and a bucket that is empty stays so.
func TestLimitsLiveOn(t *testing.T) { // D01
	w := newTenants(t, stethttp.LimitsConfig{MaxBufferedBytes: 4 << 20, NewKeysPerSecond: 0.001, Burst: 2})
	w.want(201, "the first", w.post("a", "1", 100))
	w.want(201, "the second", w.post("a", "2", 100))
	held := w.stall("b", "stalled", 1<<20)
	w.limits.Set(stethttp.LimitsConfig{MaxBufferedBytes: 2 << 20, NewKeysPerSecond: 0.002, Burst: 2})
	if a := w.post("a", "3", 100); a.Code != 429 {
		t.Errorf("a scope without tokens has some after its limits were set: %d", a.Code)
	}
	w.want(201, "another scope", w.post("c", "1", 100))
	if n := w.limits.Buffered(); n != held {
		t.Errorf("%d bytes are held, want %d", n, held)
	}
	if a := w.post("c", "2", 1<<20); a.Code != 429 {
		t.Errorf("a body for which there is no room beside what was held before: %d", a.Code)
	}
	if c := w.limits.Config(); c.MaxBufferedBytes != 2<<20 || c.SmallReserve != 2<<17 || c.MaxScopeBytes != 1024 {
		t.Errorf("%+v", c)
	}
	w.limits.Set(stethttp.LimitsConfig{})
	w.want(201, "without a limit", w.post("a", "3", 100))
	w.end()
}
