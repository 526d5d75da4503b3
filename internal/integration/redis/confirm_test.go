package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/redisstore"
)

// A write that too few replicas confirm is an error, and stays one however often it is sent,
// although the record shows that it happened: with the master it would be lost. As soon as they
// have it, it is a yes (B01, W11).
func TestUnconfirmedWrite(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			master, replica := testserver.NewRedisPair(t)
			// Another connection for each call: that of the write is not that of its second try.
			s := open(t, anew{t, a.single, master.Addr}, redisstore.Config{Wait: 1, WaitTimeout: 10 * time.Millisecond})
			create := func(r stet.Record) (made stet.Record) {
				t.Helper()
				eventually(t, "the replica has the Create", func() bool {
					got, err := s.Create(t.Context(), r)
					made = got
					return err == nil || errors.Is(err, stet.ErrExists) && got.Version == r.Version
				})
				return made
			}
			r, before := sample("k"), create(sample("before"))
			h, body := completed(before, "done")
			for _, away := range []struct {
				how        string
				away, back func()
			}{
				{"stands still", func() { replica.Pause(t) }, func() { replica.Resume(t) }},
				{"is cut off", func() { replica.CutOff(t) }, func() { replica.Follow(t, master) }},
			} {
				away.away()
				for try := range 3 {
					if _, err := s.Create(t.Context(), r); !errors.Is(err, stet.ErrUnconfirmed) {
						t.Errorf("the replica %s: Create, try %d: %v", away.how, try, err)
					}
					if _, err := s.Replace(t.Context(), before.Version, h, body); !errors.Is(err, stet.ErrUnconfirmed) {
						t.Errorf("the replica %s: Replace, try %d: %v", away.how, try, err)
					}
				}
				away.back()
				create(r)
				eventually(t, "the replica has the Replace", func() bool {
					got, err := s.Replace(t.Context(), before.Version, h, body)
					return errors.Is(err, stet.ErrStale) && got.Version == h.Version
				})
				away.away()
				for try := range 3 {
					if err := s.Delete(t.Context(), r.ID, r.Version); !errors.Is(err, stet.ErrUnconfirmed) {
						t.Errorf("the replica %s: Delete, try %d: %v", away.how, try, err)
					}
				}
				away.back()
				eventually(t, "the replica has the Delete", func() bool { return errors.Is(s.Delete(t.Context(), r.ID, r.Version), stet.ErrNotFound) })
				before = create(sample("before " + away.how))
				h, body = completed(before, "done")
			}
		})
	}
}

// anew is a client that has no connection twice.
type anew struct {
	t    testing.TB
	dial func(t testing.TB, addr string) redisstore.Client
	addr string
}

func (c anew) Do(ctx context.Context, key string, command []string, then func(any) [][]string) ([]any, error) {
	return c.dial(c.t, c.addr).Do(ctx, key, command, then)
}

// What writes nothing waits for no replica: replays, duplicates and reads are answered while one is
// away (B01).
func TestReadsWaitForNoReplica(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			master, replica := testserver.NewRedisPair(t)
			const wait = 20 * time.Second
			s := open(t, a.single(t, master.Addr), redisstore.Config{Wait: 1, WaitTimeout: wait})
			made, err := s.Create(t.Context(), sample("k"))
			if err != nil {
				t.Fatal(err)
			}
			replica.Pause(t)
			// What waits must hold up nothing else either.
			if _, err := s.Create(within(t, 500*time.Millisecond), sample("new")); !errors.Is(err, stet.ErrUnconfirmed) {
				t.Errorf("a write that has less time than it may wait for: %v", err)
			}
			ctx := within(t, wait/2)
			if _, err := s.Create(ctx, sample("k")); !errors.Is(err, stet.ErrExists) {
				t.Errorf("a duplicate: %v", err)
			}
			if _, err := s.Get(ctx, made.ID); err != nil {
				t.Errorf("Get: %v", err)
			}
			other := made.Head
			other.Version = draw()
			if _, err := s.Replace(ctx, draw(), other, nil); !errors.Is(err, stet.ErrStale) {
				t.Errorf("Replace of what is not there: %v", err)
			}
			if err := s.Delete(ctx, made.ID, draw()); !errors.Is(err, stet.ErrStale) {
				t.Errorf("Delete of what is not there: %v", err)
			}
		})
	}
}

// told is a client that notes what follows an answer about a record on its connection. The store
// raises its own mark besides, when it likes.
type told struct {
	redisstore.Client
	next [][]string
}

func (c *told) Do(ctx context.Context, key string, command []string, then func(any) [][]string) ([]any, error) {
	if then == nil || !strings.Contains(key, ":r:") {
		return c.Client.Do(ctx, key, command, then)
	}
	return c.Client.Do(ctx, key, command, func(answer any) [][]string {
		c.next = then(answer)
		return c.next
	})
}

// From Redis 7.2 on WAIT waits for the last write of its own connection, and a connection that has
// written nothing does not wait. So a second try, whose first was on another connection, writes
// something before it waits (B01).
func TestSecondTryWritesBeforeItWaits(t *testing.T) {
	master, _ := testserver.RedisPair(t)
	c := &told{Client: single(t, master.Addr)}
	s := open(t, c, redisstore.Config{Prefix: "second", Wait: 1, WaitTimeout: patience})
	r := sample("k")
	made, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	h, b := completed(made, "done")
	writes := func() int64 {
		t.Helper()
		info, err := lookInto(t, master.Addr).InfoMap(t.Context(), "replication").Result()
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(info["Replication"]["master_repl_offset"], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, try := range []struct {
		verb string
		do   func() error
		want error
	}{
		{"Create", func() error { _, err := s.Create(t.Context(), r); return err }, stet.ErrExists},
		{"Replace", func() error { _, err := s.Replace(t.Context(), made.Version, h, b); return err }, nil},
		{"Replace", func() error { _, err := s.Replace(t.Context(), made.Version, h, b); return err }, stet.ErrStale},
		{"Delete", func() error { return s.Delete(t.Context(), h.ID, h.Version) }, nil},
		{"Delete", func() error { return s.Delete(t.Context(), h.ID, h.Version) }, stet.ErrNotFound},
	} {
		before := writes()
		if err := try.do(); !errors.Is(err, try.want) {
			t.Errorf("%s: %v, want %v", try.verb, err, try.want)
		}
		wrote, n := writes() > before, len(c.next)
		if again := try.want != nil; !wrote || again && n != 2 || !again && n != 1 || c.next[n-1][0] != "WAIT" {
			t.Errorf("%s, %v: it wrote: %v; %q followed", try.verb, try.want, wrote, c.next)
		}
	}
}
