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
	"github.com/stet-dev/stet/internal/ledger"
)

// LimitsConfig bounds what clients may use up. Zero is the default of the first block, and no limit below.
type LimitsConfig struct {
	MaxBufferedBytes int64   // request and response bytes held in memory at a time, in total; default 256 MiB
	SharePerScope    float64 // of MaxBufferedBytes that one scope may hold, up to 1; default 0.5
	// SmallReserve is the part of MaxBufferedBytes, in bytes, and in the same proportion of each scope's share, that only bodies of
	// up to [SmallBody] get, so that stalled uploads keep nobody from asking for a replay. Default: an eighth. Where no more than the
	// reserve is left, a scope may hold its share of what the others leave, and no longer of the whole.
	SmallReserve   int64
	MaxTargetBytes int // of a request's target, as it was sent; a longer one is refused (invalid-target); default 8 KiB
	MaxScopeBytes  int // length of a scope; a longer one is refused with 401; default 1024

	// Per scope. A replay is never limited by these.
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
	DefaultSharePerScope    = 0.5
	DefaultMaxScopeBytes    = 1024
)

// SmallBody is how long a body may be, in bytes, to get of [LimitsConfig.SmallReserve].
const SmallBody = ledger.Small

// maxBuckets bounds how many scopes have rate buckets at a time.
const maxBuckets = 100_000

// Limits holds the state of the limits. Routes that share one share its limits. Safe for concurrent use.
type Limits struct {
	now    atomic.Pointer[LimitsConfig]
	memory *ledger.Ledger // owned by scopes; "", which is none, owns what has no key

	mu      sync.Mutex
	newKeys map[stet.Scope]*rate.Limiter
	lookups map[stet.Scope]*rate.Limiter
}

// NewLimits returns fresh limits.
func NewLimits(c LimitsConfig) *Limits {
	c = c.withDefaults()
	l := &Limits{memory: ledger.New(c.MaxBufferedBytes, c.SmallReserve, c.SharePerScope),
		newKeys: map[stet.Scope]*rate.Limiter{}, lookups: map[stet.Scope]*rate.Limiter{}}
	l.now.Store(&c)
	return l
}

func (c LimitsConfig) withDefaults() LimitsConfig {
	c.MaxBufferedBytes = cmp.Or(c.MaxBufferedBytes, DefaultMaxBufferedBytes)
	c.SharePerScope = min(cmp.Or(max(c.SharePerScope, 0), DefaultSharePerScope), 1)
	c.SmallReserve = min(cmp.Or(c.SmallReserve, c.MaxBufferedBytes/8), c.MaxBufferedBytes)
	c.MaxScopeBytes = cmp.Or(c.MaxScopeBytes, DefaultMaxScopeBytes)
	c.MaxTargetBytes = cmp.Or(c.MaxTargetBytes, DefaultMaxTargetBytes)
	return c
}

// Set gives the limits another configuration, while they are in use. What is held still counts, and a scope that has used up its
// tokens has none of another rate either. MaxTargetBytes holds for what is made with the limits from then on.
func (l *Limits) Set(c LimitsConfig) {
	c = c.withDefaults()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.Store(&c)
	l.memory.Set(c.MaxBufferedBytes, c.SmallReserve, c.SharePerScope)
	refit(l.newKeys, c.NewKeysPerSecond, c.Burst)
	refit(l.lookups, c.LookupsPerSecond, 0)
}

// refit gives buckets another rate. Without one they are left as they are, for when there is one again.
func refit(m map[stet.Scope]*rate.Limiter, perSecond float64, burst int) {
	if perSecond <= 0 {
		return
	}
	for _, b := range m {
		b.SetLimit(rate.Limit(perSecond))
		b.SetBurst(burstOf(perSecond, burst))
	}
}

func burstOf(perSecond float64, burst int) int {
	return max(1, cmp.Or(burst, int(math.Ceil(perSecond))))
}

// Config returns the limits with all defaults filled in.
func (l *Limits) Config() LimitsConfig { return *l.cfg() }

func (l *Limits) cfg() *LimitsConfig { return l.now.Load() }

// Buffered returns how many bytes are held at the moment. It is never over MaxBufferedBytes, but for what
// was held before [Limits.Set] lowered that.
func (l *Limits) Buffered() int64 { return l.memory.Held() }

// mayCreate reports whether the scope has a token for a new key. It takes none: most requests turn out to be retries, which
// are never limited and must not use up what new keys may.
func (l *Limits) mayCreate(s stet.Scope) bool {
	return l.cfg().NewKeysPerSecond <= 0 || l.bucket(l.newKeys, s, l.cfg().NewKeysPerSecond, l.cfg().Burst).Tokens() >= 1
}

// created takes the token. Requests that raced for the last one leave a debt, so that the rate holds on average.
func (l *Limits) created(s stet.Scope) {
	if l.cfg().NewKeysPerSecond > 0 {
		l.bucket(l.newKeys, s, l.cfg().NewKeysPerSecond, l.cfg().Burst).Reserve()
	}
}

func (l *Limits) lookup(s stet.Scope) bool {
	return l.cfg().LookupsPerSecond <= 0 || l.bucket(l.lookups, s, l.cfg().LookupsPerSecond, 0).Allow()
}

// nextKey and nextLookup are how long it takes until the scope has a token again, if nobody else takes it.
func (l *Limits) nextKey(s stet.Scope) time.Duration {
	return untilToken(l.bucket(l.newKeys, s, l.cfg().NewKeysPerSecond, l.cfg().Burst))
}

func (l *Limits) nextLookup(s stet.Scope) time.Duration {
	return untilToken(l.bucket(l.lookups, s, l.cfg().LookupsPerSecond, 0))
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
		b = rate.NewLimiter(rate.Limit(perSecond), burstOf(perSecond, burst))
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
	}{{l.cfg().MaxKeysPerScope, s}, {l.cfg().MaxKeys, ""}} {
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
