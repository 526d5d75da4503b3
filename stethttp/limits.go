package stethttp

import (
	"cmp"
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/stet-dev/stet"
)

// LimitsConfig bounds what clients may use up. Zero means no limit, except where a default is given.
type LimitsConfig struct {
	MaxBufferedBytes int64 // request and response bytes held in memory at a time, in total; default 256 MiB
	MaxTargetBytes   int   // of a request's target, as it was sent; default 8 KiB. A longer one is refused (invalid-target)

	// Per scope. A replay is never limited.
	NewKeysPerSecond float64
	Burst            int     // of new keys; default: one second's worth, at least 1
	LookupsPerSecond float64 // keyed requests answered 409 or 422: somebody may be guessing keys
	MaxKeysPerScope  int     // records stored; needs a store that counts

	MaxKeys int // records stored in all; needs a store that counts
}

// Defaults of [LimitsConfig].
const (
	DefaultMaxBufferedBytes = 256 << 20
	DefaultMaxTargetBytes   = 8 << 10
)

// maxBuckets bounds how many scopes have rate buckets at a time.
const maxBuckets = 100_000

// Limits holds the state of the limits. Routes that share one share its limits. Safe for concurrent use.
type Limits struct {
	cfg      LimitsConfig
	buffered atomic.Int64

	mu      sync.Mutex
	newKeys map[stet.Scope]*rate.Limiter
	lookups map[stet.Scope]*rate.Limiter
}

// NewLimits returns fresh limits.
func NewLimits(c LimitsConfig) *Limits {
	c.MaxBufferedBytes = cmp.Or(c.MaxBufferedBytes, DefaultMaxBufferedBytes)
	c.MaxTargetBytes = cmp.Or(c.MaxTargetBytes, DefaultMaxTargetBytes)
	return &Limits{cfg: c, newKeys: map[stet.Scope]*rate.Limiter{}, lookups: map[stet.Scope]*rate.Limiter{}}
}

// Config returns the limits with all defaults filled in.
func (l *Limits) Config() LimitsConfig { return l.cfg }

// Buffered returns how many bytes are held at the moment.
func (l *Limits) Buffered() int64 { return l.buffered.Load() }

// hold takes n bytes of the total, or reports false.
func (l *Limits) hold(n int64) bool {
	if l.buffered.Add(n) > l.cfg.MaxBufferedBytes {
		l.buffered.Add(-n)
		return false
	}
	return true
}

func (l *Limits) free(n int64) {
	if n != 0 {
		l.buffered.Add(-n)
	}
}

// mayCreate reports whether the scope has a token for a new key. It takes none: most requests turn out to be retries, which
// are never limited and must not use up what new keys may.
func (l *Limits) mayCreate(s stet.Scope) bool {
	return l.cfg.NewKeysPerSecond <= 0 || l.bucket(l.newKeys, s, l.cfg.NewKeysPerSecond, l.cfg.Burst).Tokens() >= 1
}

// created takes the token. Requests that raced for the last one leave a debt, so that the rate holds on average.
func (l *Limits) created(s stet.Scope) {
	if l.cfg.NewKeysPerSecond > 0 {
		l.bucket(l.newKeys, s, l.cfg.NewKeysPerSecond, l.cfg.Burst).Reserve()
	}
}

func (l *Limits) lookup(s stet.Scope) bool {
	return l.cfg.LookupsPerSecond <= 0 || l.bucket(l.lookups, s, l.cfg.LookupsPerSecond, 0).Allow()
}

// nextKey and nextLookup are how long it takes until the scope has a token again, if nobody else takes it.
func (l *Limits) nextKey(s stet.Scope) time.Duration {
	return untilToken(l.bucket(l.newKeys, s, l.cfg.NewKeysPerSecond, l.cfg.Burst))
}

func (l *Limits) nextLookup(s stet.Scope) time.Duration {
	return untilToken(l.bucket(l.lookups, s, l.cfg.LookupsPerSecond, 0))
}

func untilToken(b *rate.Limiter) time.Duration {
	const longest = 24 * time.Hour // of a rate that is as good as none
	return min(longest, time.Duration(min(longest.Seconds(), (1-b.Tokens())/float64(b.Limit()))*float64(time.Second)))
}

func (l *Limits) bucket(m map[stet.Scope]*rate.Limiter, s stet.Scope, perSecond float64, burst int) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := m[s]
	if !ok {
		if len(m) >= maxBuckets {
			makeRoom(m)
		}
		burst = max(1, cmp.Or(burst, int(math.Ceil(perSecond))))
		b = rate.NewLimiter(rate.Limit(perSecond), burst)
		m[s] = b
	}
	return b
}

// makeRoom drops a bucket: a full one, which makes no difference, where one is soon found. Else it is any: who can make scopes
// by the thousand must neither fill the memory nor have everybody wait for a search.
func makeRoom(m map[stet.Scope]*rate.Limiter) {
	tries := 64
	for scope, b := range m {
		if tries--; tries == 0 || b.Tokens() >= float64(b.Burst()) {
			delete(m, scope)
			return
		}
	}
}

// roomFor reports whether the scope may store one more key. A store that cannot count has no such limit.
func (l *Limits) roomFor(ctx context.Context, e *stet.Engine, s stet.Scope) (bool, error) {
	for _, bound := range [...]struct {
		max   int
		scope stet.Scope
	}{{l.cfg.MaxKeysPerScope, s}, {l.cfg.MaxKeys, ""}} {
		if bound.max <= 0 {
			continue
		}
		n, err := e.Count(ctx, stet.Query{Scope: bound.scope, Limit: bound.max})
		if err != nil {
			return false, err
		}
		if n >= bound.max {
			return false, nil
		}
	}
	return true, nil
}

// retrySoon is what a limited client is told to wait.
const retrySoon = time.Second
