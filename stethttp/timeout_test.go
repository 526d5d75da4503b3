package stethttp_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// renaming is a middleware between the guard and what it is around.
func renaming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-App", "a")
		next.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	})
}

// Q07: what http.TimeoutHandler answers for a handler that goes on is no result.
func TestTimeoutHandlerWithinTheGuard(t *testing.T) {
	release := make(chan struct{})
	hangs := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })
	answers := func(status int, outcome string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if outcome != "" {
				w.Header().Set("Stet-Outcome", outcome)
			}
			w.WriteHeader(status)
		})
	}
	for name, c := range map[string]struct {
		handler http.Handler
		config  stethttp.Config
		status  int
		state   stet.State
		cause   string
	}{
		"it gives up":                {http.TimeoutHandler(hangs, time.Millisecond, ""), stethttp.Config{}, 503, stet.Unknown, "timeout-handler"},
		"with words of its own":      {http.TimeoutHandler(hangs, time.Millisecond, "busy"), stethttp.Config{}, 503, stet.Unknown, "timeout-handler"},
		"with middleware":            {renaming(http.TimeoutHandler(hangs, time.Millisecond, "")), stethttp.Config{}, 503, stet.Unknown, "timeout-handler"},
		"failures are released":      {http.TimeoutHandler(hangs, time.Millisecond, ""), stethttp.Config{On5xx: stethttp.ReleaseFailure}, 503, stet.Unknown, "timeout-handler"},
		"503 is said to be a result": {http.TimeoutHandler(hangs, time.Millisecond, ""), stethttp.Config{StatusOutcome: map[int]stet.State{503: stet.Completed}}, 503, stet.Unknown, "timeout-handler"},
		"an answer in time":          {http.TimeoutHandler(answers(201, ""), time.Hour, ""), stethttp.Config{}, 201, stet.Completed, ""},
		"the handler's own failure":  {http.TimeoutHandler(answers(500, ""), time.Hour, ""), stethttp.Config{}, 500, stet.Completed, ""},
		"the handler's own 503":      {http.TimeoutHandler(answers(503, ""), time.Hour, ""), stethttp.Config{}, 503, stet.Unknown, "timeout-handler"},
		"a 503 that says what it is": {http.TimeoutHandler(answers(503, "not-executed"), time.Hour, ""), stethttp.Config{}, 503, stet.Retryable, "stated"},
		"a 503 without it":           {answers(503, ""), stethttp.Config{}, 503, stet.Completed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.config, c.handler.ServeHTTP)
			ask(t, serve(t, r.handler), "{}", "Idempotency-Key: k").want(t, c.status, "")
			h, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
			if err != nil || h.State != c.state || h.Cause != c.cause {
				t.Errorf("%v, %q, %v; want %v, %q", h.State, h.Cause, err, c.state, c.cause)
			}
			if told := slices.Contains(r.miswired(), "timeout-handler"); told != (c.cause == "timeout-handler") {
				t.Errorf("reported: %q", r.miswired())
			}
		})
	}
	close(release)
	t.Run("around the guard", func(t *testing.T) {
		r := newRig(t, stethttp.Config{}, answers(503, "").ServeHTTP)
		ask(t, serve(t, http.TimeoutHandler(r.handler, time.Hour, "")), "{}", "Idempotency-Key: k").want(t, 503, "")
		if s := r.state("k"); s != stet.Completed {
			t.Error(s)
		}
	})
}
