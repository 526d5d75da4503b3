package stethttp

import (
	"context"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

func engineOn(t *testing.T) *stet.Engine {
	t.Helper()
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// use has a scope make a key, as far as its limits are concerned, and reports whether it might.
func use(t *testing.T, l *Limits, e *stet.Engine, s stet.Scope) bool {
	t.Helper()
	done, err := l.admit(t.Context(), e, s)
	if err != nil {
		if _, ok := err.(*refusal); !ok {
			t.Fatal(err)
		}
		return false
	}
	done(true)
	return true
}

// TestBucketsAreBounded: scopes that a client can invent do not fill the memory, nor is every new
// one a search through all.
func TestBucketsAreBounded(t *testing.T) { // T5, T16
	l, e := NewLimits(LimitsConfig{NewKeysPerSecond: 0.001, LookupsPerSecond: 0.001}), engineOn(t)
	for i := range maxBuckets + 300 {
		s := stet.Scope(strconv.Itoa(i))
		use(t, l, e, s)
		_, first := l.lookup(s)
		if _, second := l.lookup(s); !first || second {
			t.Fatalf("scope %d does not have one look-up", i)
		}
	}
	if n, m := len(l.scopes.m), len(l.lookups.buckets.m); n != maxBuckets || m != maxBuckets {
		t.Errorf("%d and %d buckets, the bound is %d", n, m, maxBuckets)
	}
}

// TestFullBucketsGoFirst: one that was used is kept.
func TestFullBucketsGoFirst(t *testing.T) {
	l, e := NewLimits(LimitsConfig{NewKeysPerSecond: 0.001}), engineOn(t)
	use(t, l, e, "busy")
	for i := range maxBuckets + 1000 {
		l.rate(stet.Scope(strconv.Itoa(i)))
	}
	if use(t, l, e, "busy") {
		t.Error("the bucket of a scope that had used it up was dropped for full ones")
	}
}

// TestSetKeepsTokens: limits that change while they are in force give no scope a fresh bucket, and
// take nothing from those in use.
func TestSetKeepsTokens(t *testing.T) { // D1
	synctest.Test(t, func(t *testing.T) {
		l, e := NewLimits(LimitsConfig{NewKeysPerSecond: 1, Burst: 10}), engineOn(t)
		for range 10 {
			if !use(t, l, e, "s") {
				t.Fatal("the burst is not there")
			}
		}
		l.Set(LimitsConfig{NewKeysPerSecond: 2, Burst: 20})
		if use(t, l, e, "s") {
			t.Error("a bucket that was empty has tokens of the new burst")
		}
		time.Sleep(time.Second)
		for i := range 3 {
			if got, want := use(t, l, e, "s"), i < 2; got != want {
				t.Errorf("key %d a second later: %v", i, got)
			}
		}
		time.Sleep(time.Minute)
		use(t, l, e, "s")
		l.Set(LimitsConfig{NewKeysPerSecond: 0.001, Burst: 3})
		n := 0
		for use(t, l, e, "s") {
			n++
		}
		if n != 3 {
			t.Errorf("%d keys at once, and the burst is 3 by now", n)
		}
		l.Set(LimitsConfig{})
		if !use(t, l, e, "s") {
			t.Error("a limit that was switched off still holds")
		}
		if l.Set(LimitsConfig{MaxBufferedBytes: 10, SharePerScope: 1}); l.memory.Held() != 0 {
			t.Error("bytes are held by nobody")
		}
		hold := l.memory.Hold(l.memory.Owner("s"))
		if hold.Raise(11, true) || !hold.Raise(10, true) {
			t.Error("the ledger does not go by the new total")
		}
	})
}

// TestEstimate: the number of keys is counted once, kept up, and counted again where it seems that
// there is no room, but not always.
func TestEstimate(t *testing.T) { // E02
	synctest.Test(t, func(t *testing.T) {
		counts := 0
		e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Observe: func(ev stet.Event) {
			if ev.Op == "count" {
				counts++
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		l := NewLimits(LimitsConfig{MaxKeysPerScope: 100})
		reserve := func(key string) error {
			_, err := e.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(key)},
				Admit: func(ctx context.Context) (func(bool), error) { return l.admit(ctx, e, "s") }})
			return err
		}
		for i := range 100 {
			if err := reserve(strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		if counts != 1 {
			t.Errorf("the store was asked %d times how many keys there are", counts)
		}
		time.Sleep(time.Minute)
		for range 50 {
			if reserve("more") == nil {
				t.Fatal("a key over the limit")
			}
		}
		if counts != 2 {
			t.Errorf("the store was asked %d times, and a second is not over", counts)
		}
		gone, err := e.Get(t.Context(), stet.ID{Scope: "s", Key: "7"})
		if err == nil {
			err = e.Store().Delete(t.Context(), gone.ID, gone.Version)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := reserve("more"); err != nil {
			t.Errorf("a key that was freed is not noticed: %v", err)
		}
		if reserve("too many") == nil {
			t.Error("one was freed, and two were made")
		}
	})
}

// TestStrangers: an address is a client, and an IPv6 network is one address.
func TestStrangers(t *testing.T) { // E02
	l := NewLimits(LimitsConfig{UnauthenticatedPerSecond: 0.001})
	for _, c := range []struct {
		addr string
		ok   bool
	}{{"192.0.2.1", true}, {"192.0.2.1", false}, {"::ffff:192.0.2.1", false}, {"192.0.2.2", true}, {"2001:db8::1", true}, {"2001:db8::2%eth0", false},
		{"2001:db8:0:1::1", true}} {
		if _, ok := l.unauthenticated(netip.MustParseAddr(c.addr)); ok != c.ok {
			t.Errorf("%s: %v", c.addr, ok)
		}
	}
	_, first := l.unauthenticated(netip.Addr{})
	if _, second := l.unauthenticated(netip.Addr{}); !first || second {
		t.Error("who has no address has no limit")
	}
}
