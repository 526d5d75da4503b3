package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/redisstore"
)

// A slot goes to another node while it is written to: each write waits for it, and none is an
// error, or half of one (S20).
func TestASlotOnItsWay(t *testing.T) {
	cluster := testserver.NewRedisCluster(t)
	from, to := 0, 1
	for _, a := range adapters {
		for wait := range 2 {
			t.Run(fmt.Sprintf("%s, %d replicas", a.name, wait), func(t *testing.T) {
				prefix := strings.ReplaceAll(a.name, "-", "") + strconv.Itoa(wait)
				s, err := redisstore.Open(t.Context(), a.clustered(t, cluster.Addrs()),
					redisstore.Config{Prefix: prefix, Shards: 1, Wait: wait, WaitTimeout: patience, AllowVolatile: true})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				m := &move{t: t, nodes: cluster.Nodes, key: "{" + prefix + ":0}"}
				if m.owner(from) != from {
					from, to = to, from
				}
				if m.owner(from) != from {
					from, to = m.owner(from), (m.owner(from)+1)%3
				}
				w := &load{store: s, ending: make(chan struct{})}
				w.start(t)
				w.more(t)
				m.slot(from, to, func() { w.more(t) })
				w.more(t)
				close(w.ending)
				w.running.Wait()
				if m.owner(from) != to {
					t.Error("the slot did not move")
				}
				now, _, err := s.Identity(t.Context())
				if err != nil || now.ID == "" {
					t.Errorf("Identity: %+v, %v", now, err)
				}
			})
		}
	}
}

// load creates, completes with a note and another name, and deletes.
type load struct {
	store   *redisstore.Store
	mu      sync.Mutex
	done    int
	ending  chan struct{}
	running sync.WaitGroup
}

func (w *load) start(t *testing.T) {
	for i := range 4 {
		w.running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-w.ending:
					return
				default:
				}
				if err := w.one(fmt.Sprintf("%d-%d", i, n)); err != nil {
					t.Errorf("%d-%d: %v", i, n, err)
					return
				}
				w.mu.Lock()
				w.done++
				w.mu.Unlock()
			}
		})
	}
}

func (w *load) one(key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := sample(key)
	r.DownstreamKey = "name-" + key
	made, err := w.store.Create(ctx, r)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	h, b := completed(made, "done")
	h.DownstreamKey, h.Note = "other-"+key, &stet.Note{Who: "ann", Action: "resolve"}
	if h, err = w.store.Replace(ctx, made.Version, h, b); err != nil {
		return fmt.Errorf("replace: %w", err)
	}
	found, err := w.store.Find(ctx, "", "other-"+key)
	if err != nil || len(found) != 1 {
		return fmt.Errorf("find: %d, %w", len(found), err)
	}
	if err := w.store.Delete(ctx, h.ID, h.Version); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}

// more waits for a few turns, or for the writers to wait themselves.
func (w *load) more(t *testing.T) {
	t.Helper()
	read := func() int { w.mu.Lock(); defer w.mu.Unlock(); return w.done }
	at := read()
	eventually(t, "writes", func() bool { return read() > at+20 || t.Failed() })
}

// move moves the slot of a key.
type move struct {
	t     *testing.T
	nodes []*testserver.Server
	key   string
}

func (m *move) do(node int, command ...any) any {
	m.t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: m.nodes[node].Addr})
	defer c.Close()
	got, err := c.Do(m.t.Context(), command...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		m.t.Fatalf("%v: %v", command, err)
	}
	return got
}

// number is the slot.
func (m *move) number() any { return m.do(0, "CLUSTER", "KEYSLOT", m.key) }

// owner is the master that serves the slot, as node 0 knows it.
func (m *move) owner(ask int) int {
	m.t.Helper()
	slot := m.number().(int64)
	for _, part := range m.do(ask, "CLUSTER", "SLOTS").([]any) {
		row := part.([]any)
		if row[0].(int64) <= slot && slot <= row[1].(int64) {
			port := fmt.Sprint(row[2].([]any)[1])
			for i := range 3 {
				if strings.HasSuffix(m.nodes[i].Addr, ":"+port) {
					return i
				}
			}
		}
	}
	m.t.Fatal("nobody serves the slot")
	return -1
}

// slot moves it key by key. Half of them are there when the writers are waited for in vain.
func (m *move) slot(from, to int, after func()) {
	m.t.Helper()
	slot, source, target := m.number(), m.do(from, "CLUSTER", "MYID"), m.do(to, "CLUSTER", "MYID")
	m.do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	m.do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	_, port, _ := strings.Cut(m.nodes[to].Addr, ":")
	for {
		keys := m.do(from, "CLUSTER", "GETKEYSINSLOT", slot, 1).([]any)
		if len(keys) == 0 {
			break
		}
		m.do(from, "MIGRATE", "127.0.0.1", port, keys[0], 0, patience.Milliseconds())
	}
	for _, node := range []int{to, from} {
		m.do(node, "CLUSTER", "SETSLOT", slot, "NODE", target)
	}
	for i := range 3 {
		if i != to && i != from {
			m.do(i, "CLUSTER", "SETSLOT", slot, "NODE", target)
		}
	}
	after()
}

// A server that has too much to do, or that reads its data, has stored nothing, and is not away
// (S20).
func TestBusyServers(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			server := testserver.NewRedis(t, "--busy-reply-threshold", "10")
			s := open(t, a.single(t, server.Addr), redisstore.Config{})
			endless := goredis.NewClient(&goredis.Options{Addr: server.Addr, ReadTimeout: time.Minute, MaxRetries: -1})
			defer endless.Close()
			over := make(chan error, 1)
			go func() { over <- endless.Eval(context.Background(), "while true do end", nil).Err() }()
			var err error
			eventually(t, "it is busy", func() bool {
				_, err = s.Create(within(t, time.Second), sample(fmt.Sprint("busy-", draw())))
				return errors.Is(err, stet.ErrBusy)
			})
			if err := lookInto(t, server.Addr).ScriptKill(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			<-over
			if _, err := s.Create(t.Context(), sample("free")); err != nil {
				t.Error(err)
			}
		})
	}
}
