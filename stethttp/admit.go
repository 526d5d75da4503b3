package stethttp

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/stet-dev/stet/internal/door"
)

// admit is [stet.Request].Admit.
func (x *exchange) admit(ctx context.Context) (done func(made bool), err error) {
	return x.g.cfg.Limits.admit(ctx, x.g.engine, x.id.Scope)
}

// limited refuses a new key.
func (x *exchange) limited(r *refusal) {
	after := x.g.cfg.RetryAfterMax // a key has to expire first; it is not known when
	if r.code == RateLimited {
		after = x.soon(r.after)
	}
	x.rateHeaders(x.w.Header())
	x.answer(x.problem(r.code).After(after))
}

// unauthenticated refuses a request that does not identify its sender. A sender that goes on gets
// 429.
func (x *exchange) unauthenticated(p *Problem) {
	if !x.shadow {
		if after, ok := x.g.cfg.Limits.unauthenticated(x.client()); !ok {
			p = x.problem(RateLimited).After(x.soon(after))
			p.Detail = "Too many requests from this address do not say whose they are. Nothing was looked up; authenticate, and send it again with the same key."
		}
	}
	x.answer(p)
}

// client returns the address that the request came from.
func (x *exchange) client() netip.Addr {
	if x.g.cfg.Client != nil {
		return x.g.cfg.Client(x.r)
	}
	return door.Sender(x.r)
}

// rateHeaders sets how many new keys the scope may make. Only refusals carry these headers: if a
// first response had them, its replays would differ from it.
func (x *exchange) rateHeaders(h http.Header) {
	if policy, state, ok := x.g.cfg.Limits.rate(x.id.Scope); ok {
		h[rateLimitPolicy] = []string{policy}
		h[rateLimit] = []string{state}
	}
}

// These are the headers of draft-ietf-httpapi-ratelimit-headers-11, in the canonical form of
// net/http.
const (
	rateLimit       = "Ratelimit"
	rateLimitPolicy = "Ratelimit-Policy"
)

// soon rounds the time to ask again to whole seconds, from 1 to RetryAfterMax.
func (x *exchange) soon(d time.Duration) time.Duration {
	d = (d + time.Second - 1).Truncate(time.Second)
	return max(time.Second, min(d, x.g.cfg.RetryAfterMax))
}
