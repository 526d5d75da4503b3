package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/storetest"
)

// reached is a store with the way to what it keeps, which others who share the server have, too.
type reached struct {
	*redisstore.Store
	client *switched
	prefix string
	shards int
	addrs  []string // of the servers
}

// openReached opens a store that laws look behind.
func openReached(t testing.TB, c redisstore.Client, config redisstore.Config) stet.Store {
	t.Helper()
	config.AllowVolatile = true
	client := &switched{Client: c}
	s, err := redisstore.Open(t.Context(), client, config)
	if err != nil {
		t.Fatal(err)
	}
	return reached{Store: s, client: client, prefix: config.Prefix, shards: config.Shards}
}

// switched is a client whose server can lose its replicas: none has what is written. One that stood
// still would be away for all stores on the server; for that see TestUnconfirmedWrite.
type switched struct {
	redisstore.Client
	away atomic.Bool
}

func (c *switched) Do(ctx context.Context, key string, command []string, then func(any) [][]string) ([]any, error) {
	got, err := c.Client.Do(ctx, key, command, then)
	if err == nil && len(got) > 1 && c.away.Load() {
		got[len(got)-1] = int64(0) // of WAIT
	}
	return got, err
}

// unconfirmed is for [storetest.Backend].Unconfirmed.
func unconfirmed(_ testing.TB, s stet.Store) (restore func()) {
	c := s.(reached).client
	c.away.Store(true)
	return func() { c.away.Store(false) }
}

// Places in a record: see lua/now.lua.
const (
	instantsEnd = 48
	versionAt   = instantsEnd + 1
	lengthsAt   = versionAt + 9
	namesAt     = lengthsAt + 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// keys are those of a record, and its checksum's beginning.
func (r reached) keys(id stet.ID) (record, shard, member string, owner uint32) {
	member = string(binary.AppendUvarint(nil, uint64(len(id.Scope)))) + string(id.Scope) + string(id.Key)
	owner = crc32.Checksum([]byte(member), castagnoli)
	shard = fmt.Sprintf("{%s:%d}", r.prefix, owner%uint32(r.shards))
	return shard + ":r:" + member, shard, member, owner
}

func (r reached) do(t testing.TB, key string, command ...string) any {
	t.Helper()
	got, err := r.client.Client.Do(t.Context(), key, command, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func (r reached) value(t testing.TB, id stet.ID) []byte {
	t.Helper()
	key, _, _, _ := r.keys(id)
	text, ok := r.do(t, key, "GET", key).(string)
	if !ok {
		t.Fatal("the record is not where it should be")
	}
	return []byte(text)
}

// put stores a record as if it had been written at another time.
func (r reached) put(t testing.TB, id stet.ID, value []byte, later time.Duration) {
	t.Helper()
	const move = `redis.call('SET', KEYS[1], ARGV[1], 'KEEPTTL')
redis.call('ZINCRBY', KEYS[2], ARGV[2], ARGV[4])
redis.call('ZINCRBY', KEYS[2], ARGV[3], 'r' .. ARGV[4])`
	us := later.Microseconds()
	for at := 0; at < instantsEnd; at += 16 {
		was, err := strconv.ParseInt(string(value[at:at+16]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if was != 0 {
			copy(value[at:], fmt.Sprintf("%016d", was+us))
		}
	}
	key, shard, member, _ := r.keys(id)
	r.do(t, key, "EVAL", move, "2", key, shard, string(value), strconv.FormatInt(us/10, 10), strconv.FormatInt(-us, 10), ":"+member)
}

// at makes a record one that is due at an instant, at which it was written.
func (r reached) at(t testing.TB, h stet.Head, us int64) {
	t.Helper()
	r.put(t, h.ID, r.value(t, h.ID), time.Duration(us-h.UpdatedAt.UnixMicro())*time.Microsecond)
	key, shard, member, _ := r.keys(h.ID)
	r.do(t, key, "ZADD", shard, strconv.FormatInt(int64(h.State)*1e15+us/10, 10), ":"+member)
}

func (r reached) damage(t testing.TB, id stet.ID) {
	t.Helper()
	value := r.value(t, id)
	value[len(value)/2] ^= 0x40
	r.put(t, id, value, 0)
}

// vanish removes a record as time does, and leaves it in the indexes.
func (r reached) vanish(t testing.TB, id stet.ID) {
	t.Helper()
	key, _, _, _ := r.keys(id)
	r.do(t, key, "DEL", key)
}

// tamper is for [storetest.Backend].Tamper.
func tamper(t testing.TB, s stet.Store, id stet.ID, with storetest.Tampering) {
	t.Helper()
	r := s.(reached)
	value := r.value(t, id)
	if with.Format {
		value[instantsEnd]++
	}
	if with.Version != 0 {
		binary.BigEndian.PutUint64(value[versionAt:], uint64(with.Version))
		end := namesAt - 4
		for at := lengthsAt; at < namesAt; at += 4 {
			end += int(binary.BigEndian.Uint32(value[at:]))
		}
		_, _, _, owner := r.keys(id)
		binary.BigEndian.PutUint32(value[end:], crc32.Update(owner, castagnoli, value[instantsEnd:end]))
	}
	r.put(t, id, value, with.Ahead)
}

// law is a backend whose stores have prefixes that begin with name. The processes that laws start
// use the servers of the test that started them.
func law(t testing.TB, name string, wait int, dial func(t testing.TB, addrs ...string) redisstore.Client, servers func(t testing.TB) []string) storetest.Backend {
	t.Helper()
	var addrs []string
	const parent = "STET_LAWS_OF" // what the parent of a process that a law has started tests, and where
	if of, started := os.LookupEnv(parent); started {
		client, at, _ := strings.Cut(of, " ")
		if client != name {
			t.Skip("the law is another client's")
		}
		addrs = strings.Split(at, ",")
	} else {
		addrs = servers(t)
		t.Setenv(parent, name+" "+strings.Join(addrs, ","))
	}
	b := storetest.Backend{Shared: true, ServerClock: true, Tamper: tamper, Backup: backup, Empty: empty, Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
		r := openReached(t, dial(t, addrs...), redisstore.Config{Prefix: name + prefix(dir), Shards: shards, Wait: wait, WaitTimeout: 4 * time.Second}).(reached)
		r.addrs = addrs
		return r
	}}
	if wait > 0 {
		b.Unconfirmed = unconfirmed
	}
	return b
}

// No verb reads a record as of an instant before it was written, also where the server's clock is
// behind the one that wrote it: its lease would be over later for some readers than for others
// (B03, CR-16).
func TestReadAsOfWhenItWasWritten(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			s := openReached(t, a.single(t, testserver.Redis(t).Addr), redisstore.Config{Prefix: "as-of-" + a.name, Shards: 1}).(reached)
			r := sample("k")
			r.DownstreamID = "ch_1"
			made, err := s.Create(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			tamper(t, s, r.ID, storetest.Tampering{Ahead: time.Hour})
			check := func(verb string, heads ...stet.Head) {
				t.Helper()
				for _, h := range heads {
					if h.AsOf.Before(h.UpdatedAt) || !h.UpdatedAt.Equal(made.UpdatedAt.Add(time.Hour)) {
						t.Errorf("%s: updated at %v, as of %v", verb, h.UpdatedAt, h.AsOf)
					}
				}
				if len(heads) != 1 {
					t.Errorf("%s: %d records", verb, len(heads))
				}
			}
			got, _ := s.Get(t.Context(), r.ID)
			check("Get", got.Head)
			got, _ = s.Create(t.Context(), sample("k"))
			check("Create", got.Head)
			h := got.Head
			h.Version = draw()
			h, _ = s.Replace(t.Context(), draw(), h, nil)
			check("Replace", h)
			heads, _, _ := s.List(t.Context(), stet.Query{})
			check("List", heads...)
			heads, _ = s.Find(t.Context(), "", "ch_1")
			check("Find", heads...)
		})
	}
}
