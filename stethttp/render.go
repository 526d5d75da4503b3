package stethttp

import (
	"maps"
	"net/http"
	"strconv"

	"github.com/stet-dev/stet"
)

// contained returns a render that always leaves a whole answer. Some answers are given while the
// handler still runs, from another goroutine. A panic there would end the process, and without a
// Content-Length a client would wait for the end of the body until the handler returns.
func (g *Guard) contained(render func(http.ResponseWriter, *http.Request, *Problem)) func(http.ResponseWriter, *http.Request, *Problem) {
	return func(w http.ResponseWriter, r *http.Request, p *Problem) {
		h := w.Header()
		before := h.Clone()
		out := rendering{header: h}
		if !out.try(render, r, p) {
			g.engine.Observe(stet.Event{Kind: stet.Miswired, Route: g.cfg.Route, Cause: causeRender})
			clear(h)
			maps.Copy(h, before)
			g.cfg.document(w, p)
			return
		}
		if bodyAllowed(out.status) {
			h.Set("Content-Length", strconv.Itoa(len(out.body)))
		}
		w.WriteHeader(out.status)
		if len(out.body) > 0 {
			_, _ = w.Write(out.body)
		}
	}
}

// rendering holds an answer until it is complete.
type rendering struct {
	header http.Header
	status int // 0: none yet
	body   []byte
}

// try reports whether render left an answer that can be sent.
func (a *rendering) try(render func(http.ResponseWriter, *http.Request, *Problem), r *http.Request, p *Problem) (done bool) {
	defer func() {
		if recover() != nil {
			done = false
		}
	}()
	render(a, r, p)
	return a.status >= 200 && a.status <= 999
}

func (a *rendering) Header() http.Header { return a.header }

func (a *rendering) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *rendering) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, p...)
	return len(p), nil
}
