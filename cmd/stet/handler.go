package main

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
)

// handler makes what serves clients, from a configuration.
func handler(e *stet.Engine, conf *config.Config, limits *stethttp.Limits, log *slog.Logger) (*gateway.Gateway, error) {
	upstream, err := url.Parse(conf.Upstream)
	if err != nil {
		return nil, err // checked before
	}
	c := gateway.Config{
		Upstream:       upstream,
		Default:        conf.HTTP(limits),
		Scope:          scopeFunc(conf, log),
		ScopeByRoute:   slices.Contains(conf.Scope.Parts, "route"),
		ScopeByHost:    slices.Contains(conf.Scope.Parts, "host"),
		StrictCoverage: conf.StrictCoverage,
		UpstreamKey:    upstreamKeys[conf.Policy.UpstreamKey],
		EmptyBody:      emptyBodies[conf.EmptyBody],
		KeepHeaders:    conf.ScopeHeaders(),
		TrustedProxies: conf.Proxies(),
		Log:            log,

		UpstreamTimeout:     conf.UpstreamTimeout.Duration(),
		UpstreamIdleTimeout: conf.UpstreamIdle.Duration(),
		LateAnswer:          conf.LateAnswer.Duration(),
	}
	if c.UpstreamTimeout == 0 {
		c.UpstreamTimeout = -1 // no limit
	}
	for i := range conf.Routes {
		c.Routes = append(c.Routes, gateway.Route{Match: conf.Routes[i].Match, Config: conf.RouteHTTP(i, limits),
			UpstreamKey: upstreamKeys[conf.Routes[i].Policy.UpstreamKey], MatchEncoded: conf.Routes[i].MatchEncoded})
	}
	return gateway.New(e, c)
}

// scopeFunc returns the scope function of a configuration, which warns of the first token that comes
// for a scope.
func scopeFunc(conf *config.Config, log *slog.Logger) stethttp.ScopeFunc {
	scope := conf.ScopeFunc()
	var warned sync.Once
	return func(r *http.Request) (stet.Scope, error) {
		id, err := scope(r)
		if refused, ok := errors.AsType[*stethttp.NoIdentity](err); ok && refused.Detail != "" {
			warned.Do(func() {
				log.Warn("a token came for a scope, and such requests are refused (401): the next token would be another caller; "+
					"have the proxy that checks it set a header with what stays the same, and name that in scope.header", "scope", conf.ScopeText())
			})
		}
		return id, err
	}
}

var emptyBodies = map[string]gateway.EmptyBody{"chunked": gateway.EmptyChunked, "length": gateway.EmptyLength}

var upstreamKeys = map[string]gateway.UpstreamKey{"string": gateway.ForwardString, "bare": gateway.ForwardBare,
	"off": gateway.ForwardNothing}
