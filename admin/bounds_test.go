package admin_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/internal/stalling"
	"github.com/stet-dev/stet/store/memstore"
)

// Changes that are being read share a bound, of which short ones have a part. One that breaks off
// changes nothing, whatever the part that came looks like.
func TestChangesShareABound(t *testing.T) { // C11
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := admin.New(e, admin.Config{})
	release := func(body io.Reader, length int64) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/keys/s/k/release", body)
		r.RemoteAddr, r.ContentLength = "127.0.0.1:1", length
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	resume := make(chan struct{})
	var stalled sync.WaitGroup
	refused := 0
	for range 10 {
		const size = 2 << 20
		body := &stalling.Reader{Reader: strings.NewReader(`{"reason":"x"}` + strings.Repeat(" ", size-100)), Reached: make(chan struct{}), On: resume}
		answer := make(chan int, 1)
		stalled.Go(func() {
			if w := release(body, size); w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "" {
				answer <- w.Code
			} else if w.Code != http.StatusBadRequest {
				t.Errorf("a change that breaks off: %d %s", w.Code, w.Body)
			}
		})
		select {
		case <-body.Reached:
		case <-answer:
			refused++
		}
	}
	if refused != 4 {
		t.Errorf("%d changes of 2 MiB were refused beside 6 others, want 4", refused)
	}
	if w := release(strings.NewReader(`{"reason":"x"}`), 14); w.Code != http.StatusNotFound {
		t.Errorf("a short change: %d %s", w.Code, w.Body)
	}
	close(resume)
	stalled.Wait()
}
