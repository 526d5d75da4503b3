package main

import (
	"errors"
	"hash/maphash"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/observe"
	"github.com/stet-dev/stet/stethttp"
)

// maxSharers is how many credentials are told apart: that there are two is what matters.
const maxSharers = 1024

// sharers counts the credentials whose requests share one bucket of keys, where the configuration
// does not say whose requests are. It keeps hashes that mean nothing outside the process, and tells
// only how many there are.
type sharers struct {
	metrics *observe.Metrics
	log     *slog.Logger
	seed    maphash.Seed

	last atomic.Uint64 // the one seen last: most requests have it
	mu   sync.Mutex
	seen map[uint64]struct{}

	tokens sync.Once // warns of one that came for a scope
}

func newSharers(m *observe.Metrics, log *slog.Logger) *sharers {
	return &sharers{metrics: m, log: log, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
}

// watch returns the scope function of a configuration, which counts if there is need, and warns of
// the first token that comes for a scope.
func (s *sharers) watch(conf *config.Config) stethttp.ScopeFunc {
	scope := conf.ScopeFunc()
	switch {
	case s == nil:
		return scope
	case !conf.Unscoped():
		return func(r *http.Request) (stet.Scope, error) {
			id, err := scope(r)
			if refused, ok := errors.AsType[*stethttp.NoIdentity](err); ok && refused.Detail != "" {
				s.tokens.Do(func() {
					s.log.Warn("a token came for a scope, and such requests are refused (401): the next token would be another caller; "+
						"have the proxy that checks it set a header with what stays the same, and name that in scope.header", "scope", conf.ScopeText())
				})
			}
			return id, err
		}
	}
	s.mu.Lock()
	s.metrics.SingleTenant(len(s.seen))
	s.mu.Unlock()
	return func(r *http.Request) (stet.Scope, error) {
		if lines := r.Header["Authorization"]; len(lines) > 0 {
			s.add(maphash.String(s.seed, lines[0]))
		}
		return scope(r)
	}
}

func (s *sharers) add(sum uint64) {
	if s.last.Load() == sum {
		return
	}
	s.last.Store(sum)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.seen[sum]; known || len(s.seen) == maxSharers {
		return
	}
	s.seen[sum] = struct{}{}
	s.metrics.SingleTenant(len(s.seen))
	if len(s.seen) == 2 {
		s.log.Warn("requests of different credentials share one bucket of keys: with another's key and request one gets the other's answer; " +
			"say whose a request is (scope), or that it does not matter (scope: { single_tenant: true })")
	}
}
