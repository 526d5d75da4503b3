package stethttp

import (
	"cmp"
	"context"
	"math"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ledger"
)

// LimitsConfig bounds what clients may use up. Zero is the default of the first block, and no limit below.
type LimitsConfig struct {
	MaxBufferedBytes int64   // request and response bytes held in memory at a time, in total; default 256 MiB
	SharePerScope    float64 // of MaxBufferedBytes that one scope may hold, up to 1; default 0.5
	// SmallReserve is the part of MaxBufferedBytes, in bytes, and in the same proportion of each scope's share, that only bodies of
	// up to 16 KiB get, so that stalled uploads keep nobody from asking for a replay. Default: an eighth. Where no more than the
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

	// UnauthenticatedPerSecond is how many requests without a scope one remote address may send before they get 429 in the place
	// of 401; an IPv6 address stands for its network (/64). See [Config].Client.
	UnauthenticatedPerSecond float64

	// Replicas is how many processes share the store, each with limits of its own like these; 0 and 1 are one. Each then looks, once
	// a second at most, how many keys of a scope the others have made, where that may matter. Together they exceed NewKeysPerSecond
	// by no more than Replicas × (Burst + one second's worth) at the beginning, and not on average; and the numbers of keys by what
	// the others make within a second, or within ten while less than half is in use.
	Replicas int
}

// Defaults of [LimitsConfig].
const (
	defaultMaxBufferedBytes = 256 << 20
	defaultMaxTargetBytes   = 8 << 10
	defaultSharePerScope    = 0.5
	defaultMaxScopeBytes    = 1024
)

// Limits holds the state of the limits. Routes that share one share its limits. Safe for concurrent use.
type Limits struct {
	cfg    atomic.Pointer[LimitsConfig]
	memory *ledger.Ledger // owned by scopes; "", which is none, owns what has no key

	scopes  table[stet.Scope, *account]
	all     account // of MaxKeys
	lookups meter[stet.Scope]
	senders meter[netip.Prefix]
}

// NewLimits returns fresh limits.
func NewLimits(c LimitsConfig) *Limits {
	c = c.withDefaults()
	l := &Limits{memory: ledger.New(c.MaxBufferedBytes, c.SmallReserve, c.SharePerScope)}
	l.cfg.Store(&c)
	return l
}

func (c LimitsConfig) withDefaults() LimitsConfig {
	c.MaxBufferedBytes = cmp.Or(c.MaxBufferedBytes, defaultMaxBufferedBytes)
	c.SharePerScope = min(cmp.Or(max(c.SharePerScope, 0), defaultSharePerScope), 1)
	c.SmallReserve = min(cmp.Or(c.SmallReserve, c.MaxBufferedBytes/8), c.MaxBufferedBytes)
	c.MaxScopeBytes = cmp.Or(c.MaxScopeBytes, defaultMaxScopeBytes)
	c.MaxTargetBytes = cmp.Or(c.MaxTargetBytes, defaultMaxTargetBytes)
	return c
}

// Config returns the limits with all defaults filled in.
func (l *Limits) Config() LimitsConfig { return *l.cfg.Load() }

// Set puts other limits in force, for requests that run as well. What was used up stays so: a scope keeps its tokens, up to the new
// burst, and what is held in memory stays held. MaxTargetBytes is taken by guards that are made afterwards.
func (l *Limits) Set(c LimitsConfig) {
	c = c.withDefaults()
	l.cfg.Store(&c)
	l.memory.Set(c.MaxBufferedBytes, c.SmallReserve, c.SharePerScope)
}

// Buffered returns how many bytes are held at the moment. It is never over MaxBufferedBytes, but for what [Limits.Set] found held.
func (l *Limits) Buffered() int64 { return l.memory.Held() }

// lookup counts an answer that tells of a key in use, or says how long the scope gets none.
func (l *Limits) lookup(s stet.Scope) (after time.Duration, ok bool) {
	return l.lookups.allow(s, l.cfg.Load().LookupsPerSecond)
}

// unauthenticated counts a request that does not say whose it is. Where its address is not known it shares one with all such.
func (l *Limits) unauthenticated(client netip.Addr) (after time.Duration, ok bool) {
	return l.senders.allow(network(client), l.cfg.Load().UnauthenticatedPerSecond)
}

// network is what one client has addresses of.
func network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // of no address: none
	return p
}

// newKeys reports whether anything bounds new keys.
func (c *LimitsConfig) newKeys() bool {
	return c.NewKeysPerSecond > 0 || c.MaxKeysPerScope > 0 || c.MaxKeys > 0
}

// scope and total are what bounds the new keys of one scope, and of all.
func (c *LimitsConfig) scope(s stet.Scope) bounds {
	return bounds{scope: s, rate: max(0, c.NewKeysPerSecond), burst: burstOf(c.NewKeysPerSecond, c.Burst), most: c.MaxKeysPerScope, replicas: max(1, c.Replicas)}
}

func (c *LimitsConfig) total() bounds { return bounds{most: c.MaxKeys, replicas: max(1, c.Replicas)} }

func burstOf(perSecond float64, burst int) int {
	return max(1, cmp.Or(burst, int(math.Ceil(perSecond))))
}

// admit takes what a new key of the scope uses up. done gives it back where no key was made. The error is a [*refusal], or the
// store's where it could not count.
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
	return l.scopes.get(s, func() *account { return new(account) }, func(a *account) bool { return a.idle(b) })
}

// rate says how a scope stands with new keys, as draft-ietf-httpapi-ratelimit-headers-11 has it; false where nothing bounds their
// rate. The window is how long an empty bucket takes to fill.
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

// seconds is d in whole seconds, and not less than d.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// retrySoon is what a limited client is told to wait.
const retrySoon = time.Second
