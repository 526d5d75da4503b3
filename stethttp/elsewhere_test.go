package stethttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// plainWriter hides what a recorder can do besides; framework writers are made of it.
type plainWriter struct{ http.ResponseWriter }

// asGin is gin's writer, as far as a guard sees of it.
type asGin struct {
	plainWriter
	status int
	sent   bool
	over   bool // another status was wanted after that
}

func (g *asGin) Unwrap() http.ResponseWriter { return g.ResponseWriter }
func (g *asGin) Written() bool               { return g.sent }

func (g *asGin) WriteHeader(status int) {
	if g.over = g.over || g.sent; !g.sent {
		g.status = status
	}
}

func (g *asGin) WriteHeaderNow() {
	if !g.sent {
		g.sent = true
		g.ResponseWriter.WriteHeader(g.status)
	}
}

func (g *asGin) Write(p []byte) (int, error) {
	g.WriteHeaderNow()
	return g.ResponseWriter.Write(p)
}

// asEcho is echo's.
type asEcho struct{ plainWriter }

func (*asEcho) Before(func()) {}
func (*asEcho) After(func())  {}

// counting are the writers of access logs.
type counting struct {
	plainWriter
	n int
}

func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }
func (c *counting) BytesWritten() int           { return c.n }
func (c *counting) Size() int                   { return c.n }

func (c *counting) Write(p []byte) (int, error) {
	c.n += len(p)
	return c.ResponseWriter.Write(p)
}

// fastContext is the context of a request that fasthttp has taken in.
type fastContext struct{ context.Context }

func (fastContext) UserValue(any) any { return nil }

// C09: a handler that returns without a word is taken at it only where nothing says that it
// answered elsewhere, or will.
func TestAnsweredElsewhere(t *testing.T) {
	type around = func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request)
	type bridge struct {
		name   string
		around around
		handle func(outer, w http.ResponseWriter, r *http.Request)
		first  int // status
		body   string
		state  stet.State
		miss   int // Miswired events
	}
	silent := func(_, _ http.ResponseWriter, _ *http.Request) {}
	wrap := func(f func(http.ResponseWriter) http.ResponseWriter) around {
		return func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) { return f(w), r }
	}
	gin := wrap(func(w http.ResponseWriter) http.ResponseWriter {
		return &asGin{plainWriter: plainWriter{w}, status: 200}
	})
	echo := wrap(func(w http.ResponseWriter) http.ResponseWriter { return &asEcho{plainWriter{w}} })
	logged := wrap(func(w http.ResponseWriter) http.ResponseWriter { return &counting{plainWriter: plainWriter{w}} })
	fast := func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
		return w, r.WithContext(fastContext{r.Context()})
	}
	for _, b := range []bridge{
		{"net/http", wrap(func(w http.ResponseWriter) http.ResponseWriter { return plainWriter{w} }), silent, 200, "", stet.Completed, 0},
		{"behind an access log", logged, silent, 200, "", stet.Completed, 0},
		{"past an access log", logged, func(outer, _ http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(outer, "charged")
		}, 200, "charged", stet.Unknown, 1},
		{"gin, its own writer", gin, func(outer, _ http.ResponseWriter, _ *http.Request) {
			outer.WriteHeader(201)
			_, _ = io.WriteString(outer, "charged")
		}, 201, "charged", stet.Unknown, 1},
		{"gin, its own writer, completed", gin, func(outer, _ http.ResponseWriter, r *http.Request) {
			stet.ClaimFrom(r.Context()).Completed()
			_, _ = io.WriteString(outer, "charged")
		}, 200, "charged", stet.Unknown, 1},
		{"gin, its own writer below a log", func(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
			w, r = gin(w, r)
			return logged(w, r)
		}, func(outer, _ http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(outer.(*counting).ResponseWriter, "charged")
		}, 200, "charged", stet.Unknown, 1},
		{"gin, a status that is not sent yet", gin, func(outer, _ http.ResponseWriter, _ *http.Request) {
			outer.WriteHeader(204)
		}, 409, "outcome-unknown", stet.Unknown, 1},
		{"gin, the guard's writer", gin, func(_, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(204)
		}, 204, "", stet.Completed, 0},
		{"gin, the guard's writer, and its own before the guard", gin, func(outer, w http.ResponseWriter, _ *http.Request) { // R11
			w.WriteHeader(402)
			outer.(*asGin).WriteHeaderNow()
		}, 200, "", stet.Unknown, 1},
		{"echo, an error to come", echo, silent, 409, "outcome-unknown", stet.Unknown, 1},
		{"echo, an error to come, and headers", echo, func(_, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
		}, 409, "outcome-unknown", stet.Unknown, 1},
		{"echo, completed", echo, func(_, _ http.ResponseWriter, r *http.Request) {
			stet.ClaimFrom(r.Context()).Completed()
		}, 200, "", stet.Completed, 0},
		{"echo, nothing happened", echo, func(_, _ http.ResponseWriter, r *http.Request) {
			stet.ClaimFrom(r.Context()).NotExecuted("declined")
		}, 409, "outcome-unknown", stet.Retryable, 1},
		{"echo, answered", echo, func(_, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(402) }, 402, "", stet.Completed, 0},
		{"fiber", fast, silent, 409, "outcome-unknown", stet.Unknown, 1},
		{"fiber, answered", fast, func(_, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }, 201, "", stet.Completed, 0},
	} {
		t.Run(b.name, func(t *testing.T) {
			var outer http.ResponseWriter
			g := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, r *http.Request) { b.handle(outer, w, r) })
			guarded := g.handler
			g.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w, r = b.around(w, r)
				outer = w
				guarded.ServeHTTP(w, r)
				if now, ok := w.(*asGin); ok {
					now.WriteHeaderNow()
					if now.over {
						t.Error("the guard answered over an answer")
					}
				}
			})
			const key = "5f1c2ab0-7d10-4f5e"
			resp := g.post(key, `{}`)
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != b.first || !strings.Contains(string(body), b.body) || b.body == "" && len(body) > 0 {
				t.Errorf("the first answer is %d %q, want %d %q", resp.StatusCode, body, b.first, b.body)
			}
			if got := g.state(key); got != b.state {
				t.Errorf("the record is %s, want %s", got, b.state)
			}
			if got := g.strays(); got != b.miss {
				t.Errorf("the observer was told %d times that the wiring is wrong, want %d", got, b.miss)
			}
			g.wantRuns(1)
		})
	}
}

func (r *rig) strays() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == stet.Miswired && e.Cause == stethttp.CauseElsewhere && e.ID.Key != "" && e.Attempt == 1 {
			n++
		}
	}
	return n
}

// C09: gin runs the handlers that follow a middleware which has only answered. Once a handler is
// known to answer past its guard, none is left to it: the client gets the whole answer, and a panic
// ends the request.
func TestRetryPastTheGuardIsBarred(t *testing.T) {
	var handler func() // of the request at hand, writing past the guard
	g := newRig(t, stethttp.Config{}, func(http.ResponseWriter, *http.Request) { handler() })
	guarded, effects := g.handler, 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gin, ran := &asGin{plainWriter: plainWriter{w}, status: 200}, false
		handler = func() {
			ran = true
			effects++
			_, _ = io.WriteString(gin, "charged")
		}
		if guarded.ServeHTTP(gin, r); !ran {
			handler()
		}
	}))
	defer srv.Close()
	for i, want := range []string{"200 charged", "409 outcome-unknown"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "5f1c2ab0-7d10-4f5e")
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		status, part, _ := strings.Cut(want, " ")
		if err != nil || strconv.Itoa(resp.StatusCode) != status || !strings.Contains(string(body), part) {
			t.Errorf("answer %d: %d %q (%v)", i+1, resp.StatusCode, body, err)
		}
		if i == 1 && !resp.Close {
			t.Error("the connection is not said to close")
		}
	}
	if effects != 1 || g.runs.Load() != 1 {
		t.Errorf("%d effects, %d runs", effects, g.runs.Load())
	}
}

// C09: an unknown framework may still answer an error after the guard has returned. It is
// too late for the record, and not for the log.
func TestAnswerAfterSilence(t *testing.T) {
	var kept http.ResponseWriter
	g := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) { kept = w })
	g.want(g.post("5f1c2ab0-7d10-4f5e", `{}`), 200, "")
	if n := g.strays(); n != 0 {
		t.Fatalf("%d events for an empty 200", n)
	}
	kept.WriteHeader(402)
	if _, err := io.WriteString(kept, "declined"); !errors.Is(err, http.ErrHandlerTimeout) {
		t.Errorf("the writer says %v", err)
	}
	if n := g.strays(); n != 1 {
		t.Errorf("the observer was told %d times, want once", n)
	}
}
