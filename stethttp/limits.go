package stethttp

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/fill"
	"github.com/stet-dev/stet/internal/ledger"
)

// LimitsConfig bounds what clients may use up. The zero value of a field is its default: a limit
// for the first five, and no limit for the others.
type LimitsConfig struct {
	MaxBufferedBytes int64   // request and response bytes held in memory at a time; default 256 MiB
	SharePerScope    float64 // the part of MaxBufferedBytes that one scope may hold, up to 1; default 0.5
	// SmallReserve is the part of MaxBufferedBytes, in bytes, that only bodies of up to 16 KiB may
	// use, so that stalled uploads do not keep other clients from asking for a replay. The same
	// proportion of each scope's share is reserved. When no more than the reserve is left, a scope
	// may hold its share of what the others leave instead of the whole. Default: an eighth of
	// MaxBufferedBytes.
	SmallReserve   int64
	MaxTargetBytes int // length of a request target as sent; a longer one is refused (invalid-target); default 8 KiB
	MaxScopeBytes  int // length of a scope in bytes; a longer one is refused with 401; default 1024

	// These are per scope. Replays are never limited by them.
	NewKeysPerSecond float64 // new keys; default: no limit
	Burst            int     // new keys at once; default: one second's worth, at least 1
	LookupsPerSecond float64 // keyed requests answered with 409 or 422, against guessing of keys; default: no limit
	MaxKeysPerScope  int     // records stored; needs a store that counts; default: no limit

	MaxKeys int // records stored in all; needs a store that counts

	// UnauthenticatedPerSecond is how many requests without a scope one remote address may send
	// before they get 429 instead of 401. An IPv6 address stands for its /64 network. See
	// [Config].Client.
	UnauthenticatedPerSecond float64

	// Replicas is the number of processes that share the store, each with limits like these; 0
	// means 1. Each process then looks, at most once a second and only if it may matter, how many
	// keys of a scope the others have made. Together they exceed NewKeysPerSecond by at most
	// Replicas × (Burst + one second's worth) at the beginning, and not on average. They exceed the
	// numbers of keys by what the others make within one second, or within ten seconds while less
	// than half is in use.
	Replicas int
}

// Limits holds the state of the limits. Routes with the same Limits share them. It is safe for
// concurrent use.
type Limits struct {
	unusable error // what is wrong with the config that they were made with

	cfg    atomic.Pointer[LimitsConfig]
	memory *ledger.Ledger // owned by scopes; "", which is none, owns what has no key

	scopes  table[stet.Scope, account]
	all     account // of MaxKeys
	lookups meter[stet.Scope]
	senders meter[netip.Prefix]
}

// NewLimits returns limits that nothing has been used of yet. If a number of c is out of bounds,
// [Config.Validate] and [New] return an error that says which.
func NewLimits(c LimitsConfig) *Limits {
	unusable := limitsBounds.Check(&c)
	if unusable != nil {
		c = LimitsConfig{}
	}
	c = c.withDefaults()
	l := &Limits{unusable: unusable, memory: ledger.New(c.MaxBufferedBytes, c.SmallReserve, c.SharePerScope)}
	l.cfg.Store(&c)
	return l
}

func (c LimitsConfig) withDefaults() LimitsConfig {
	defaults := LimitsConfig{MaxBufferedBytes: 256 << 20, SharePerScope: 0.5, MaxTargetBytes: 8 << 10, MaxScopeBytes: 1024}
	c = fill.Or(c, defaults)
	c.SmallReserve = min(cmp.Or(c.SmallReserve, c.MaxBufferedBytes/8), c.MaxBufferedBytes)
	return c
}

// Config returns the limits with all defaults filled in.
func (l *Limits) Config() LimitsConfig { return *l.cfg.Load() }

// Set puts other limits in force, also for requests that are running. What was used up stays used:
// a scope keeps its tokens, up to the new burst, and held memory stays held. MaxTargetBytes applies
// to guards that are made afterwards. If a number of c is out of bounds, nothing changes, and the
// error says which.
func (l *Limits) Set(c LimitsConfig) error {
	if err := limitsBounds.Check(&c); err != nil {
		return err
	}
	c = c.withDefaults()
	l.cfg.Store(&c)
	l.memory.Set(c.MaxBufferedBytes, c.SmallReserve, c.SharePerScope)
	return nil
}

// Buffered returns the number of bytes held at the moment. It exceeds MaxBufferedBytes only by what
// was held before [Limits.Set] lowered it.
func (l *Limits) Buffered() int64 { return l.memory.Held() }

// lookup counts an answer that tells of a key in use. If the scope has had too many, it returns how
// long it gets no more.
func (l *Limits) lookup(s stet.Scope) (after time.Duration, ok bool) {
	return l.lookups.allow(s, l.cfg.Load().LookupsPerSecond)
}

// unauthenticated counts a request that does not identify its sender. Requests with unknown
// addresses share one count.
func (l *Limits) unauthenticated(client netip.Addr) (after time.Duration, ok bool) {
	return l.senders.allow(network(client), l.cfg.Load().UnauthenticatedPerSecond)
}

// network returns the network that one client has addresses of.
func network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // of no address: none
	return p
}

// newKeys reports whether new keys are bounded at all.
func (c *LimitsConfig) newKeys() bool {
	return c.NewKeysPerSecond > 0 || c.MaxKeysPerScope > 0 || c.MaxKeys > 0
}

// scope and total return the bounds on the new keys of one scope, and of all scopes.
func (c *LimitsConfig) scope(s stet.Scope) bounds {
	return bounds{scope: s, rate: max(0, c.NewKeysPerSecond), burst: burstOf(c.NewKeysPerSecond, c.Burst), most: c.MaxKeysPerScope, replicas: max(1, c.Replicas)}
}

func (c *LimitsConfig) total() bounds { return bounds{most: c.MaxKeys, replicas: max(1, c.Replicas)} }

func burstOf(perSecond float64, burst int) int {
	return max(1, cmp.Or(burst, int(math.Ceil(perSecond))))
}

// admit takes what a new key of the scope uses up; done gives it back if no key was made. The error
// is a [*refusal], or the store's if it could not count.
func (l *Limits) admit(ctx context.Context, e *stet.Engine, s stet.Scope) (done func(made bool), err error) {
	c := l.cfg.Load()
	own := l.account(c, s)
	if err := own.enter(ctx, e, c.scope(s)); err != nil {
		return nil, err
	}
	if c.MaxKeys <= 0 {
		return own.leave, nil
	}
	if err := l.all.enter(ctx, e, c.total()); err != nil {
		own.leave(false)
		return nil, err
	}
	return func(made bool) {
		own.leave(made)
		l.all.leave(made)
	}, nil
}

func (l *Limits) account(c *LimitsConfig, s stet.Scope) *account {
	b := c.scope(s)
	return l.scopes.get(s, func(a *account) bool { return a.idle(b) })
}

// rate returns the RateLimit fields of a scope (draft-ietf-httpapi-ratelimit-headers-11); ok is
// false if its rate is not bounded. The window is the time that an empty bucket takes to fill.
func (l *Limits) rate(s stet.Scope) (policy, state string, ok bool) {
	c := l.cfg.Load()
	if c.NewKeysPerSecond <= 0 {
		return "", "", false
	}
	b := c.scope(s)
	left, after := l.account(c, s).state(b)
	window := time.Duration(float64(b.burst) / b.rate * float64(time.Second))
	policy = `"new-keys";q=` + strconv.Itoa(b.burst) + ";w=" + seconds(window)
	return policy, `"new-keys";r=` + strconv.Itoa(left) + ";t=" + seconds(after), true
}

// seconds formats d in whole seconds, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// retrySoon is the Retry-After of a condition that is expected to pass soon.
const retrySoon = time.Second

// bucket holds tokens. It is filled when it is looked at, with the rate in force at that time, so
// it needs no timer and no notice of a new rate.
type bucket struct {
	mu     sync.Mutex
	tokens float64 // below 0 is a debt
	at     time.Time
}

// whole is what counts as a token, because sums of fractions come out a little short of one.
const whole = 1 - 1e-6

// fill adds the tokens that have come since the last time. A new bucket is full.
func (b *bucket) fill(now time.Time, rate float64, burst int) {
	if b.tokens = min(float64(burst), b.tokens+rate*now.Sub(b.at).Seconds()); b.at.IsZero() {
		b.tokens = float64(burst)
	}
	b.at = now
}

func (b *bucket) has() bool { return b.tokens >= whole }

// until returns the time until the bucket has n tokens if none is taken meanwhile.
func (b *bucket) until(n, rate float64) time.Duration {
	const longest = 24 * time.Hour // for rates close to zero
	return min(longest, time.Duration(min(longest.Seconds(), max(0, n-b.tokens)/rate)*float64(time.Second)))
}

// maxBuckets bounds how many scopes, and how many addresses, are remembered at a time.
const maxBuckets = 100_000

// table remembers up to [maxBuckets] values by name. A client that makes names by the thousand can
// neither fill the memory nor make others wait for a search.
type table[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]*V
}

// get returns the value of a name, or remembers a new one. If there is no room it forgets another
// one: an idle one, which makes no difference, if one is soon found, else any.
func (t *table[K, V]) get(name K, idle func(*V) bool) *V {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.m[name]
	if ok {
		return v
	}
	if t.m == nil {
		t.m = map[K]*V{}
	}
	tries := 64
	for other, o := range t.m {
		if len(t.m) < maxBuckets {
			break
		}
		if tries--; tries == 0 || idle(o) {
			delete(t.m, other)
		}
	}
	v = new(V)
	t.m[name] = v
	return v
}

// meter lets each name do something at a rate.
type meter[K comparable] struct{ buckets table[K, bucket] }

// allow takes a token, or returns the time until there is one. A rate of 0 is no limit. One
// second's worth may be taken at once.
func (m *meter[K]) allow(name K, rate float64) (after time.Duration, ok bool) {
	if rate <= 0 {
		return 0, true
	}
	now, burst := time.Now(), burstOf(rate, 0)
	b := m.buckets.get(name, func(b *bucket) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.fill(now, rate, burst)
		return b.tokens >= float64(burst)
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fill(now, rate, burst); !b.has() {
		return b.until(1, rate), false
	}
	b.tokens--
	return 0, true
}

// admit is [stet.Request].Admit.
func (x *exchange) admit(ctx context.Context) (done func(made bool), err error) {
	return x.g.cfg.Limits.admit(ctx, x.g.engine, x.id.Scope)
}

// limited refuses a new key.
func (x *exchange) limited(r *refusal) {
	after := x.g.cfg.RetryAfterMax // a key has to expire first; it is not known when
	if r.code == RateLimited {
		after = x.g.cfg.soon(r.after)
	}
	x.rateHeaders(x.w.Header())
	x.answer(x.problem(r.code).After(after))
}

// unauthenticated refuses a request that does not identify its sender. A sender that goes on gets
// 429.
func (x *exchange) unauthenticated(p *Problem) {
	if !x.shadow {
		if after, ok := x.g.cfg.Limits.unauthenticated(x.g.cfg.clientOf(x.r)); !ok {
			p = x.problem(RateLimited).After(x.g.cfg.soon(after))
			p.Detail = "Too many requests from this address do not say whose they are. Nothing was looked up; authenticate, and send it again with the same key."
		}
	}
	x.answer(p)
}

// clientOf returns the address that the request came from.
func (c *Config) clientOf(r *http.Request) netip.Addr {
	if c.Client != nil {
		return c.Client(r)
	}
	return door.Sender(r)
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
func (c *Config) soon(d time.Duration) time.Duration {
	d = (d + time.Second - 1).Truncate(time.Second)
	return max(time.Second, min(d, c.RetryAfterMax))
}
