package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/redisstore"
)

// raw looks at what the store keeps.
type raw struct {
	*goredis.Client
	t *testing.T
}

func lookInto(t *testing.T, addr string) raw {
	c := goredis.NewClient(&goredis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return raw{c, t}
}

// keys are those of the store but the number of shards, by pattern.
func (r raw) keys(pattern string) []string {
	r.t.Helper()
	all, err := r.Keys(r.t.Context(), pattern).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// Running and unknown records are never lost to a lifetime; what is over has one, which ends after
// it is due (I9, I10).
func TestLifetimes(t *testing.T) {
	server := testserver.NewRedis(t)
	c := lookInto(t, server.Addr)
	const linger = time.Hour
	s := open(t, single(t, server.Addr), redisstore.Config{Shards: 1, Linger: linger})
	for _, tc := range []struct {
		state stet.State
		in    time.Duration
		keep  time.Duration
		lasts time.Duration // 0: for ever
	}{
		{stet.Running, time.Minute, 0, 0},
		{stet.Unknown, time.Minute, 0, 0},
		{stet.Completed, time.Minute, 0, time.Minute + linger},
		{stet.Completed, time.Minute, 2 * time.Hour, time.Minute + 2*time.Hour + linger},
		{stet.Completed, stet.Never, 0, 0},
		{stet.Retryable, time.Minute, 0, time.Minute + linger},
		{stet.Expired, time.Minute, 0, time.Minute + linger},
	} {
		r, err := s.Create(t.Context(), sample(fmt.Sprint(tc.state, tc.in, tc.keep)))
		if err != nil {
			t.Fatal(err)
		}
		h := r.Head
		h.State, h.DueIn, h.Rules.KeepExpired, h.Version, h.DownstreamID = tc.state, tc.in, tc.keep, draw(), "ch_"+string(h.Key)
		if _, err := s.Replace(t.Context(), r.Version, h, nil); err != nil {
			t.Fatal(err)
		}
		for _, key := range kept(t, c, &h) {
			left, err := c.PTTL(t.Context(), key).Result()
			if err != nil || tc.lasts == 0 && left >= 0 || tc.lasts > 0 && (left > tc.lasts || left < tc.lasts-time.Minute) {
				t.Errorf("%v, due in %v: it lasts %v (%v), want %v", tc.state, tc.in, left, err, tc.lasts)
			}
		}
		h.State, h.Version, h.DueIn = stet.Running, draw(), time.Minute // a retry runs: it must not vanish while it does
		have, _ := s.Get(t.Context(), h.ID)
		if _, err := s.Replace(t.Context(), have.Version, h, nil); err != nil {
			t.Fatal(err)
		}
		for _, key := range kept(t, c, &h) {
			if left := c.PTTL(t.Context(), key).Val(); left >= 0 {
				t.Errorf("%v and then running: %v are left to it", tc.state, left)
			}
		}
	}
}

// kept are the keys of a record and of its name's index: one each, whatever becomes of the record
// (B09).
func kept(t *testing.T, c raw, h *stet.Head) []string {
	t.Helper()
	all := append(c.keys("*:r:*"+string(h.Key)), c.keys("*:name:"+h.DownstreamID)...)
	if len(all) != 2 {
		t.Errorf("%v: %s is kept in %q", h.State, h.Key, all)
	}
	return all
}

// An index of a name that several records have lasts as long as the last of them, and no longer;
// while one of them is unresolved, for ever (B07, B09).
func TestLifetimesOfASharedName(t *testing.T) {
	server := testserver.NewRedis(t)
	c := lookInto(t, server.Addr)
	const linger, name = time.Hour, "ch_shared"
	s := open(t, single(t, server.Addr), redisstore.Config{Shards: 1, Linger: linger})
	var all [3]stet.Head
	move := func(i int, state stet.State, in time.Duration, name string) {
		t.Helper()
		h := all[i]
		h.State, h.DueIn, h.Version, h.DownstreamID = state, in, draw(), name
		got, err := s.Replace(t.Context(), all[i].Version, h, nil)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = got
	}
	lasts := func(when string, want time.Duration) {
		t.Helper()
		left, err := c.PTTL(t.Context(), c.keys("*:name:" + name)[0]).Result()
		if err != nil || want == 0 && left >= 0 || want > 0 && (left > want || left < want-time.Minute) {
			t.Errorf("%s the name lasts %v (%v), want %v", when, left, err, want)
		}
		found, err := s.(stet.Finder).Find(t.Context(), "", name)
		if err != nil || len(found) == 0 {
			t.Errorf("%s %d are found, %v", when, len(found), err)
		}
	}
	for i := range all {
		r := sample(fmt.Sprint(i))
		r.DownstreamID = name
		made, err := s.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = made.Head
	}
	move(0, stet.Completed, 2*time.Hour, name)
	lasts("while two run", 0)
	move(1, stet.Completed, time.Hour, name)
	lasts("while one runs", 0)
	move(2, stet.Unknown, 0, name)
	lasts("while one is unknown", 0)
	move(2, stet.Completed, time.Minute, name)
	lasts("when all have ended", 2*time.Hour+linger)
	move(2, stet.Running, time.Minute, name)
	lasts("when one runs again", 0)
	move(2, stet.Running, time.Minute, "ch_other")
	lasts("when it has another name", 2*time.Hour+linger)
	if err := s.Delete(t.Context(), all[0].ID, all[0].Version); err != nil {
		t.Fatal(err)
	}
	lasts("when the longest is gone", time.Hour+linger)
}

// A name that each of many records has for a while does not keep what has vanished (B07).
func TestNamesOfTheVanished(t *testing.T) {
	server := testserver.NewRedis(t)
	c := lookInto(t, server.Addr)
	s := open(t, single(t, server.Addr), redisstore.Config{Shards: 1, Linger: time.Millisecond})
	stays := sample("stays")
	stays.DownstreamID = "ch_1"
	if _, err := s.Create(t.Context(), stays); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		r := sample(fmt.Sprint(i))
		r.State, r.DueIn, r.DownstreamID = stet.Completed, time.Millisecond, "ch_1"
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "only what is there has the name", func() bool {
		r := sample(fmt.Sprint("running-", draw()))
		r.DownstreamID = "ch_1"
		made, err := s.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		n := c.ZCard(t.Context(), c.keys("*:name:ch_1")[0]).Val()
		if err := s.Delete(t.Context(), made.ID, made.Version); err != nil {
			t.Fatal(err)
		}
		return n == 2
	})
}

// Without a reaper records vanish by themselves, and new ones clear the indexes of old ones:
// nothing leaks.
func TestNothingLeaks(t *testing.T) {
	server := testserver.NewRedis(t)
	c := lookInto(t, server.Addr)
	s := open(t, single(t, server.Addr), redisstore.Config{Shards: 2, Linger: time.Millisecond})
	for i := range 200 {
		r := sample(fmt.Sprint("short-", i))
		r.State, r.DueIn, r.DownstreamKey = []stet.State{stet.Completed, stet.Retryable, stet.Expired}[i%3], time.Millisecond, fmt.Sprint("name-", i)
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "nothing is left of old records", func() bool {
		if _, err := s.Create(t.Context(), sample(fmt.Sprint("later-", draw()))); err != nil {
			t.Fatal(err)
		}
		left := len(c.keys("*:r:*short*")) + len(c.keys("*:name:*"))
		for _, key := range c.keys("{*}") { // the indexes
			for _, member := range c.ZRange(t.Context(), key, 0, -1).Val() {
				if strings.Contains(member, "short") {
					left++
				}
			}
		}
		return left == 0
	})
}

// A record that is damaged is refused for its key alone: others, and lists, go on (SF-05).
func TestDamagedRecords(t *testing.T) {
	server := testserver.NewRedis(t)
	c := lookInto(t, server.Addr)
	s := open(t, single(t, server.Addr), redisstore.Config{Shards: 1})
	good, err := s.Create(t.Context(), sample("good"))
	if err != nil {
		t.Fatal(err)
	}
	r := sample("damaged")
	r.Request = []byte("what was asked")
	r.DownstreamID = "ch_1"
	made, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	key := c.keys("*:r:*damaged")[0]
	whole := c.Get(t.Context(), key).Val()
	// Instants are the server's, written by its script; a checksum of the writer's cannot cover
	// them.
	const instants = 48
	for at := instants; at < len(whole); at++ {
		bad := []byte(whole)
		bad[at] ^= 0x40
		check(t, c, s, key, string(bad), made, good, fmt.Sprint("byte ", at))
	}
	for n := range len(whole) - 1 {
		check(t, c, s, key, whole[:n+1], made, good, fmt.Sprint("cut after ", n+1))
	}
	if err := c.Set(t.Context(), key, whole, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), r.ID); err != nil || string(got.Request) != "what was asked" {
		t.Errorf("whole again: %v", err)
	}
}

func check(t *testing.T, c raw, s stet.Store, key, value string, made, good stet.Record, what string) {
	t.Helper()
	if err := c.Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), made.ID); !errors.Is(err, stet.ErrCorrupt) {
		t.Fatalf("%s: Get: %v", what, err)
	}
	if _, err := s.Create(t.Context(), sample(string(made.Key))); !errors.Is(err, stet.ErrCorrupt) {
		t.Fatalf("%s: Create: %v", what, err)
	}
	h := made.Head
	h.Version = draw()
	if _, err := s.Replace(t.Context(), draw(), h, nil); err == nil {
		t.Fatalf("%s: Replace took it", what)
	}
	if _, err := s.Get(t.Context(), good.ID); err != nil {
		t.Fatalf("%s: another record: %v", what, err)
	}
	heads, _, err := s.(stet.Lister).List(t.Context(), stet.Query{})
	if err != nil || len(heads) < 1 || len(heads) > 2 {
		t.Fatalf("%s: %d are listed, %v", what, len(heads), err)
	}
}
