package blackbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/stethttp"
)

func TestMiddleware(t *testing.T) {
	for _, store := range []string{"memory", "file", "sqlite"} {
		t.Run(store, func(t *testing.T) { runCases(t, middlewareTarget(store)) })
	}
}

// middlewareTarget runs the middleware around the fixture, in this process.
func middlewareTarget(store string) Target {
	target := Target{Name: "middleware", Store: store}
	if store == "memory" {
		target.Lacks = map[Need]string{NeedKill: "records in memory do not outlive their process"}
	}
	target.Open = func(t testing.TB, s Spec) (Server, error) { return openMiddleware(t, store, s) }
	return target
}

// middleware is a Server: per node an engine with a server of its own, all on one store.
type middleware struct {
	t     testing.TB
	spec  Spec
	fx    *Fixture
	clock *movable
	open  func() (stet.Store, error) // one more way to the same records
	log   *transcript
	nodes []*node
	all   []*node // those that died too
}

var _ Server = (*middleware)(nil)

// node is what a process would be.
type node struct {
	store  *local
	engine *stet.Engine
	srv    *http.Server
	addr   string
	counts *counts
	stop   context.CancelFunc
	work   sync.WaitGroup // what it runs, its handlers included
}

// waitedFor lets close wait for handlers whose connection is gone: a server that was killed forgets
// them.
func (n *node) waitedFor(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.work.Add(1)
		defer n.work.Done()
		h.ServeHTTP(w, r)
	})
}

func openMiddleware(t testing.TB, store string, s Spec) (_ Server, err error) {
	dir, err := os.MkdirTemp("", "stet-")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	m := &middleware{t: t, spec: s, fx: NewFixture(), clock: &movable{}, log: &transcript{}}
	m.fx.Outcome = state
	m.open = opener(store, dir, m.clock)
	t.Cleanup(m.close)
	n := 1
	if s.Need&NeedNodes != 0 {
		n = 3
	}
	for range n {
		started, err := m.run(s.Policy)
		if err != nil {
			return nil, err
		}
		m.nodes = append(m.nodes, started)
	}
	return m, nil
}

// state is the outcome API of a handler in the same process.
func state(r *http.Request, outcome string) {
	claim := stet.ClaimFrom(r.Context())
	switch outcome {
	case "not-executed":
		claim.NotExecuted("declined")
	case "unknown":
		claim.Unknown("lost")
	case "completed":
		claim.Completed()
	}
}

// principal is what comes before the last colon of a bearer token: tenant and user, without the
// nonce.
func principal(r *http.Request) (stet.Scope, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	i := strings.LastIndexByte(token, ':')
	if !ok || i < 1 {
		return "", stethttp.ErrNoIdentity
	}
	return stet.Scope(token[:i]), nil
}

func (m *middleware) run(policy string) (*node, error) {
	s, err := readSettings(policy)
	if err != nil {
		return nil, err
	}
	if s.Store.Timeout == 0 && m.spec.Need&(steered|NeedKill|NeedPause) == 0 {
		s.Store.Timeout = storeTimeout
	}
	base, err := m.open()
	if err != nil {
		return nil, err
	}
	n := &node{store: newLocal(base, m.clock), counts: newCounts()}
	n.engine, err = stet.New(n.store, stet.Config{StoreTimeout: seconds(s.Store.Timeout), Observe: n.counts.observe})
	if err != nil {
		return nil, err
	}
	h, err := guarded(n.engine, &s, m.fx)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n.addr = l.Addr().String()
	n.srv = &http.Server{Handler: n.waitedFor(h), ErrorLog: log.New(m.log, "", 0), Protocols: new(http.Protocols)}
	n.srv.Protocols.SetHTTP1(true)
	n.srv.Protocols.SetUnencryptedHTTP2(s.H2C)
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	n.work.Go(func() { _ = n.srv.Serve(l) })
	n.work.Go(func() { _ = maintenance.Sweeper{Engine: n.engine, Every: pace}.Run(ctx) })
	n.work.Go(func() { _ = maintenance.Reaper{Engine: n.engine, Every: pace}.Run(ctx) })
	m.all = append(m.all, n)
	return n, nil
}

// pace is how often a node looks for what has lapsed. The nodes of all policies live side by side:
// a shorter pace is most of what the suite computes.
const pace = 500 * time.Millisecond

// guarded puts the middleware around the fixture: one guard per route, as a program does with its
// ServeMux.
func guarded(e *stet.Engine, s *settings, fx http.Handler) (http.Handler, error) {
	c, err := s.config()
	if err != nil {
		return nil, err
	}
	g, err := stethttp.New(e, principal, c)
	if err != nil || len(s.Routes) == 0 {
		return g.Wrap(fx), err
	}
	mux := http.NewServeMux()
	mux.Handle("/", g.Wrap(fx))
	for i, r := range s.Routes {
		c, err := s.route(i)
		if err != nil {
			return nil, err
		}
		g, err := stethttp.New(e, principal, c)
		if err != nil {
			return nil, err
		}
		mux.Handle(r.Match, g.Wrap(fx))
	}
	return mux, nil
}

func (m *middleware) URL(node int) string    { return "http://" + m.nodes[node].addr }
func (m *middleware) Fixture() *Fixture      { return m.fx }
func (m *middleware) Faults(node int) Faults { return m.nodes[node].store }
func (m *middleware) Log() string            { return m.log.String() }

// Kill: the store never hears of this node again, and neither do its clients. Its handlers go on,
// as those of an upstream do.
func (m *middleware) Kill(node int) {
	n := m.nodes[node]
	n.store.die()
	n.stop()
	_ = n.srv.Close()
}

func (m *middleware) Start(node int, policy string) {
	m.t.Helper()
	n, err := m.run(policy)
	if err != nil {
		m.t.Fatalf("starting again: %v", err)
	}
	m.nodes[node] = n
}

// Pause: a process that is stopped renews no lease.
func (m *middleware) Pause(node int)    { m.nodes[node].store.Down() }
func (m *middleware) Continue(node int) { m.nodes[node].store.Up() }

func (m *middleware) Records(scope string) ([]Record, error) {
	heads, next, err := m.nodes[0].engine.Operator().List(context.Background(), stet.Query{Scope: stet.Scope(scope), Limit: stet.MaxLimit})
	if err == nil && next != "" {
		err = errors.New("more records than a page has")
	}
	all := make([]Record, 0, len(heads))
	for i := range heads {
		h := &heads[i]
		all = append(all, Record{State: h.State.String(), Attempt: h.Attempt, Status: h.Status, Route: h.Route, Response: h.Size})
	}
	return all, err
}

func (m *middleware) Metrics() (map[string]float64, error) { return m.nodes[0].counts.read(), nil }

// close ends every node in its own time: a goroutine that stays behind fails the suite.
func (m *middleware) close() {
	m.fx.Close()
	ctx, cancel := context.WithTimeout(context.Background(), shutdown)
	defer cancel()
	for i, n := range m.all {
		n.store.Up()
		if err := n.srv.Shutdown(ctx); err != nil {
			m.t.Errorf("node %d: %v", i, err)
		}
		n.stop()
		n.work.Wait()
		if err := n.engine.Drain(ctx); err != nil {
			m.t.Errorf("node %d: %v", i, err)
		}
	}
	for _, n := range m.all {
		if c, ok := stet.As[io.Closer](n.store); ok {
			if err := c.Close(); err != nil {
				m.t.Error(err)
			}
		}
	}
}

// counts are the counters that events feed, as a program would keep them.
type counts struct {
	mu     sync.Mutex
	series map[string]float64
}

func newCounts() *counts { return &counts{series: map[string]float64{}} }

func (c *counts) observe(e stet.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Kind {
	case stet.Answer:
		c.series[fmt.Sprintf("idem_requests_total{result=%q,route=%q}", e.Result, e.Route)]++
		if e.Result == "new" || e.Result == "retry" {
			c.series["idem_execution_ms_count"]++
		}
	case stet.StoreCall:
		if e.Err != nil {
			c.series[fmt.Sprintf("idem_store_errors_total{op=%q}", e.Op)]++
		}
	case stet.Transition, stet.LeaseLost, stet.PersistFailed, stet.Persisted:
	}
}

func (c *counts) read() map[string]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]float64{}
	for k, v := range c.series {
		all[k] = v
	}
	return all
}
