package stethttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stet-dev/stet/stethttp"
)

// What is held for all requests together has a bound; what was held is given back.
func TestBuffersAreBoundedTogether(t *testing.T) {
	limits := stethttp.NewLimits(stethttp.LimitsConfig{MaxBufferedBytes: 100 << 10})
	large := strings.Repeat("x", 200<<10)
	r := newRig(t, stethttp.Config{Limits: limits}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(large))
	})
	r.want(r.post("k1", large), http.StatusTooManyRequests, stethttp.RateLimited)
	if n := r.runs.Load(); n != 0 {
		t.Errorf("a body that could not be held ran %d times", n)
	}
	if res := r.post("k2", "{}"); res.StatusCode != http.StatusCreated {
		t.Errorf("a small body: %d", res.StatusCode)
	}
	r.want(r.post("k2", "{}"), http.StatusConflict, stethttp.ResultNotRetained)
	if n := limits.Buffered(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

// A line break in a value would end the header field, and begin another.
func TestValuesWithLineBreaks(t *testing.T) {
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Name", "a\r\nX-Admin: yes\x00")
		w.WriteHeader(http.StatusCreated)
	})
	for _, when := range []string{"first", "replayed"} {
		if got := r.post("k1", "{}").Header.Get("X-Name"); got != "a  X-Admin: yes" && got != "a  X-Admin: yes " {
			t.Errorf("%s: the value is %q", when, got)
		}
	}
}
