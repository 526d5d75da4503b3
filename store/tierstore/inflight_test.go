package tierstore_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/tierstore"
)

func TestInFlight(t *testing.T) {
	rigs(t, tierstore.Config{InFlight: true}, func(t *testing.T, x *rig) {
		made, err := x.Create(t.Context(), running("k"))
		if err != nil {
			t.Fatal(err)
		}
		if have, asked := x.retry("k"); asked || have.State != stet.Running || have.Version != made.Version || have.Over() {
			t.Errorf("a duplicate in flight asked the origin: %v; it is %v", asked, have.State)
		}
		before := x.origin.asked.Load()
		if _, err := x.Get(t.Context(), made.ID); err != nil || x.origin.asked.Load() == before {
			t.Errorf("what runs was read from the cache: %v", err)
		}
		h := made.Head // nothing happened: one retry may run
		h.Version, h.State, h.DueIn = draw(), stet.Retryable, time.Hour
		if _, err := x.Replace(t.Context(), made.Version, h, nil); err != nil {
			t.Fatal(err)
		}
		if have, asked := x.retry("k"); !asked || have.State != stet.Retryable {
			t.Errorf("the note of the run was not removed: %v", have.State)
		}
	})
}

// A note that could not be removed keeps requests from running, for TTL at most.
func TestStaleNoteOfARun(t *testing.T) {
	rigs(t, tierstore.Config{InFlight: true}, func(t *testing.T, x *rig) {
		r := running("k")
		r.DueIn = time.Hour
		made, err := x.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.sibling().Delete(t.Context(), r.ID, made.Version); err != nil {
			t.Fatal(err)
		}
		if have, _ := x.retry("k"); have.State != stet.Running || have.Over() {
			t.Errorf("the note says %v; over: %v", have.State, have.Over())
		}
		x.clock.Advance(tierstore.DefaultTTL + time.Second)
		if _, err := x.Create(t.Context(), running("k")); err != nil {
			t.Errorf("the note outlived TTL: %v", err)
		}
	})
}

// A lease that is over is the origin's to judge.
func TestLapsedLeaseGoesToTheOrigin(t *testing.T) {
	rigs(t, tierstore.Config{InFlight: true, TTL: time.Hour}, func(t *testing.T, x *rig) {
		if _, err := x.Create(t.Context(), running("k")); err != nil {
			t.Fatal(err)
		}
		x.clock.Advance(time.Minute)
		if have, asked := x.retry("k"); !asked || !have.Over() {
			t.Errorf("asked the origin: %v, over: %v", asked, have.Over())
		}
	})
}

// A caller that finds its own write in the cache finds all of it: a resumed run needs its progress.
func TestNoteOfARunHasItsBody(t *testing.T) {
	rigs(t, tierstore.Config{InFlight: true}, func(t *testing.T, x *rig) {
		r := running("k")
		r.Progress = []byte("charged")
		made, err := x.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		h := made.Head
		h.Version, h.DueIn, h.Attempt = draw(), time.Minute, 2
		if _, err := x.Replace(t.Context(), made.Version, h, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if have, _ := x.retry("k"); have.Attempt != 2 || string(have.Progress) != "charged" {
				t.Errorf("attempt %d with progress %q", have.Attempt, have.Progress)
			}
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	const size = 1 << 20
	cache := tierstore.NewMemory(size)
	x := &rig{t: t, origin: &counted{Store: memory(nil)}}
	x.Store = tiered(t, cache, x.origin, tierstore.Config{})
	put := func(key stet.Key, n int) {
		t.Helper()
		r := running(key)
		r.State, r.Response = stet.Completed, &stet.Response{Status: 200, Body: bytes.Repeat([]byte{'b'}, n)}
		if _, err := x.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		put(stet.Key(rune('A'+i)), 64<<10)
	}
	deadline := time.Now().Add(time.Minute)
	for cache.Bytes() > size {
		if time.Now().After(deadline) {
			t.Fatalf("the cache holds %d bytes of %d", cache.Bytes(), size)
		}
	}
	if cache.Bytes() < size/2 {
		t.Errorf("the cache holds %d bytes of %d", cache.Bytes(), size)
	}
	put("large", size/8)
	if _, asked := x.retry("large"); !asked {
		t.Error("a copy of an eighth of the cache was kept")
	}
}

func TestNewNamesWhatCannotBe(t *testing.T) {
	m := memory(nil)
	for name, c := range map[string]struct {
		cache  tierstore.Cache
		origin stet.Store
		cfg    tierstore.Config
	}{
		"no cache": {nil, m, tierstore.Config{}}, "no origin": {tierstore.NewMemory(0), nil, tierstore.Config{}},
		"TTL": {tierstore.NewMemory(0), m, tierstore.Config{TTL: -1}}, "Timeout": {tierstore.NewMemory(0), m, tierstore.Config{Timeout: -1}},
	} {
		if _, err := tierstore.New(c.cache, c.origin, c.cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// errClose is what closing says.
var errClose = errors.New("closing")

type closing struct{ stet.Store }

func (closing) Close() error { return errClose }

func TestCloseClosesBoth(t *testing.T) {
	m := memory(nil)
	for _, s := range []*tierstore.Store{
		tiered(t, tierstore.Shared(closing{m}), m, tierstore.Config{}), tiered(t, tierstore.NewMemory(0), closing{m}, tierstore.Config{}),
	} {
		if err := s.Close(); !errors.Is(err, errClose) {
			t.Errorf("Close: %v", err)
		}
	}
}
