package stethttp

import (
	"net/http"

	"github.com/stet-dev/stet"
)

// Refuse answers r with p, in the form that the guard's [Config] asks for. It is for handlers that
// refuse a request themselves, as a proxy does when its upstream is gone; w is the ResponseWriter
// that the handler was given. If the client already has an answer because the run took too long, a
// refusal does not count as a late result of the run.
func (g *Guard) Refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	if own, ok := w.(*capture); ok {
		own.mu.Lock()
		own.refused = true
		own.mu.Unlock()
	}
	g.cfg.respond(w, r, p)
}

// TurnAway answers r with p before the guard has seen the request, and counts it with the guard's route.
func (g *Guard) TurnAway(w http.ResponseWriter, r *http.Request, p *Problem) {
	g.engine.Observe(stet.Event{Kind: stet.Answer, Route: g.cfg.Route, Result: kinds[p.Code].result, Status: p.Status})
	g.cfg.respond(w, r, p)
}

// Discard takes back what the handler has answered so far, so that it can give another answer. It
// reports false if bytes have already left for the client. What the handler stated on its claim
// stays. A proxy finds this method by a type assertion on its ResponseWriter.
func (c *capture) Discard() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase() != holding {
		return false
	}
	clear(c.header)
	c.status, c.sent, c.declared, c.written, c.refused = 0, nil, -1, 0, false
	c.buf.Reset()
	return true
}
