package stethttp

import (
	"sync"
	"time"
)

// bucket holds tokens. Who looks fills it, at the rate that is in force then, so that it needs no timer and no word of a new rate.
type bucket struct {
	tokens float64 // below 0 is a debt
	at     time.Time
}

// whole is what counts as a token: sums of fractions of one come out a little short.
const whole = 1 - 1e-6

// fill adds what has come since it was last filled. A new bucket is full.
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

// until is how long it takes until n tokens are there, if nobody takes one meanwhile.
func (b *bucket) until(n, rate float64) time.Duration {
	const longest = 24 * time.Hour // of a rate that is as good as none
	return min(longest, time.Duration(min(longest.Seconds(), max(0, n-b.tokens)/rate)*float64(time.Second)))
}

// maxBuckets bounds how many scopes, and how many addresses, are remembered at a time.
const maxBuckets = 100_000

// table remembers up to [maxBuckets] things by name. Who can make names by the thousand must neither fill the memory nor have
// everybody wait for a search.
type table[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]V
}

// get returns what is remembered by that name, or what make makes. Where there is no room one is forgotten: one that is idle, and
// so makes no difference, where such a one is soon found, or else any.
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

// allow takes a token, or says how long there is none. A rate of 0 is no limit. A full second's worth may come at once.
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
