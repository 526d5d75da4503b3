package stethttp

import (
	"sync"
	"time"
)

// bucket holds tokens. It is filled when it is looked at, with the rate in force at that time, so
// it needs no timer and no notice of a new rate.
type bucket struct {
	tokens float64 // below 0 is a debt
	at     time.Time
}

// whole is what counts as a token, because sums of fractions come out a little short of one.
const whole = 1 - 1e-6

// fill adds the tokens that have come since the last time. A new bucket is full.
func (b *bucket) fill(now time.Time, rate float64, burst int) {
	switch most := float64(burst); {
	case b.at.IsZero():
		b.tokens = most
	default:
		b.tokens = min(most, b.tokens+rate*now.Sub(b.at).Seconds())
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
	m  map[K]V
}

// get returns the value of a name, or remembers the one that make returns. If there is no room it
// forgets another one: an idle one, which makes no difference, if one is soon found, else any.
func (t *table[K, V]) get(name K, make func() V, idle func(V) bool) V {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.m[name]
	if ok {
		return v
	}
	if t.m == nil {
		t.m = map[K]V{}
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
	v = make()
	t.m[name] = v
	return v
}

// meter lets each name do something at a rate.
type meter[K comparable] struct{ buckets table[K, *metered] }

type metered struct {
	mu sync.Mutex
	bucket
}

// allow takes a token, or returns the time until there is one. A rate of 0 is no limit. One
// second's worth may be taken at once.
func (m *meter[K]) allow(name K, rate float64) (after time.Duration, ok bool) {
	if rate <= 0 {
		return 0, true
	}
	now, burst := time.Now(), burstOf(rate, 0)
	idle := func(b *metered) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.fill(now, rate, burst)
		return b.tokens >= float64(burst)
	}
	b := m.buckets.get(name, func() *metered { return new(metered) }, idle)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fill(now, rate, burst); !b.has() {
		return b.until(1, rate), false
	}
	b.tokens--
	return 0, true
}
