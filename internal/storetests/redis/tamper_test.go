package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/storetest"
)

// reached is a store with the way to what it keeps, which others who share the server have, too.
type reached struct {
	*redisstore.Store
	client *switched
	prefix string
	shards int
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
	return reached{s, client, config.Prefix, config.Shards}
}

// switched is a client whose server can lose its replicas: none has what is written. One that stood still would be away for all stores
// on the server; for that see TestUnconfirmedWrite.
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

// tamper is for [storetest.Backend].Tamper.
func tamper(t testing.TB, s stet.Store, id stet.ID, with storetest.Tampering) {
	t.Helper()
	r := s.(reached)
	member := string(binary.AppendUvarint(nil, uint64(len(id.Scope)))) + string(id.Scope) + string(id.Key)
	owner := crc32.Checksum([]byte(member), castagnoli)
	shard := fmt.Sprintf("{%s:%d}", r.prefix, owner%uint32(r.shards))
	key := shard + ":r:" + member
	got, err := r.client.Client.Do(t.Context(), key, []string{"GET", key}, nil)
	if err != nil || got[0] == nil {
		t.Fatalf("the record is not where it should be: %v", err)
	}
	value := []byte(got[0].(string))
	if with.Format {
		value[instantsEnd]++
	}
	if with.Version != 0 {
		binary.BigEndian.PutUint64(value[versionAt:], uint64(with.Version))
		end := namesAt - 4
		for at := lengthsAt; at < namesAt; at += 4 {
			end += int(binary.BigEndian.Uint32(value[at:]))
		}
		binary.BigEndian.PutUint32(value[end:], crc32.Update(owner, castagnoli, value[instantsEnd:end]))
	}
	ahead := with.Ahead.Microseconds()
	for at := 0; at < instantsEnd; at += 16 {
		us, err := strconv.ParseInt(string(value[at:at+16]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if us != 0 {
			copy(value[at:], fmt.Sprintf("%016d", us+ahead))
		}
	}
	const move = `redis.call('SET', KEYS[1], ARGV[1], 'KEEPTTL')
redis.call('ZINCRBY', KEYS[2], ARGV[2], ARGV[4])
redis.call('ZINCRBY', KEYS[2], ARGV[3], 'r' .. ARGV[4])`
	command := []string{"EVAL", move, "2", key, shard, string(value), strconv.FormatInt(ahead/10, 10), strconv.FormatInt(-ahead, 10), ":" + member}
	if _, err := r.client.Client.Do(t.Context(), key, command, nil); err != nil {
		t.Fatal(err)
	}
}

// law is a backend whose stores have prefixes that begin with name.
func law(name string, wait int, client func(t testing.TB) redisstore.Client) storetest.Backend {
	b := storetest.Backend{ServerClock: true, Tamper: tamper, Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
		return openReached(t, client(t), redisstore.Config{Prefix: name + prefix(dir), Shards: shards, Wait: wait})
	}}
	if wait > 0 {
		b.Unconfirmed = unconfirmed
	}
	return b
}
