package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/docs/problems"
	"github.com/stet-dev/stet/internal/stopwatch"
)

// pages serves the documents that problem types point to, if ProblemBase is an address of this
// gateway. Requests for that host and below that path do not reach the upstream.
type pages struct {
	host, path string
	handler    http.Handler
}

// pagesBelow returns the pages of a base, or nil if it is no address, such as a URN.
func pagesBelow(base string) *pages {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || !strings.HasSuffix(u.Path, "/") {
		return nil
	}
	return &pages{strings.ToLower(u.Host), u.Path, problems.Handler()}
}

func (p *pages) has(r *http.Request) bool {
	return p != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.HasPrefix(r.URL.Path, p.path) &&
		strings.ToLower(r.Host) == p.host
}

func (g *Gateway) page(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	g.pages.handler.ServeHTTP(w, r)
	g.engine.Observe(stet.Event{Kind: stet.Answer, Route: g.routes.unmatched.Config.Route, Result: "bypass", Took: stopwatch.Since(began)})
}
