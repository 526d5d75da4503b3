package reconcile

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/stalling"
)

// Anybody can write headers that look like those of a notice. What follows them is bounded for all together, and short ones, which
// honest notices are, get through.
func TestNoticesShareABound(t *testing.T) { // C11
	w, hook := onStore(t, stores["memory"])
	resume := make(chan struct{})
	var stalled sync.WaitGroup
	held0 := held.Held()
	const n = 3 * maxNotices / maxNotice
	for i := range n {
		r := signedNotice(fmt.Sprint("msg_", i), "", secret, time.Now())
		reached := make(chan struct{})
		r.Body, r.ContentLength = io.NopCloser(&stalling.Reader{Reader: strings.NewReader(strings.Repeat("x", maxNotice-1)), Reached: reached, On: resume}), maxNotice
		if i%2 == 1 {
			r.ContentLength = -1 // in chunks
		}
		a := httptest.NewRecorder()
		done := make(chan struct{})
		stalled.Go(func() {
			defer close(done)
			hook.ServeHTTP(a, r)
		})
		select {
		case <-reached:
		case <-done:
			if toldBy(t, a) != "429 rate-limited" || a.Header().Get("Retry-After") != "1" {
				t.Errorf("notice %d: %s", i, toldBy(t, a))
			}
		}
		if held.Held() > maxNotices {
			t.Fatalf("%d bytes are held", held.Held())
		}
	}
	if got := held.Held(); got < maxNotices/2-maxNotice {
		t.Errorf("only %d bytes are held: nothing stalls", got)
	}
	if a := notify(hook, `{"scope":"s","key":"k0","outcome":"not-executed","attempt":1}`, secret, time.Now()); a.Code != 200 {
		t.Errorf("an honest notice: %d %s", a.Code, a.Body)
	}
	close(resume)
	stalled.Wait()
	if held.Held() != held0 {
		t.Errorf("%d bytes are held in the end", held.Held())
	}
	w.begin(0, stet.Execute)
}
