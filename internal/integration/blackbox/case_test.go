package blackbox

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/tier"
)

// Case is one row of the tables.
type Case struct {
	ID     string
	Policy string // YAML; "" is the default profile with nothing set
	Need   Need
	Only   string // "middleware", "gateway" or a store: the row is about that one
	Why    string // with Only: the reason the others skip
	Skip   string // the row belongs elsewhere: where, and why
	Run    func(c *C)
}

// patience bounds everything a case waits for. No case should come near it.
const patience = 2 * time.Minute

// C is one case at work: who asks, at which server, under which name.
type C struct {
	testing.TB
	row    Case
	target Target
	ctx    context.Context
	name   string // unique: the fixture's book, the tenant and the default key carry it
	pool   *pool
	srv    Server
	node   int
}

// families are all rows, in the order of the tables.
func families() []Case {
	return slices.Concat(casesKS, casesMM, casesFP, casesCC, casesRP, casesTT, casesSC, casesFX, casesSF, casesCR,
		casesSM, casesLM, casesSE, casesGW, casesPF, casesOP)
}

// runCases runs every row on one target.
func runCases(t *testing.T, target Target) {
	p := newPool(t, target)
	for _, row := range families() {
		t.Run(row.ID, func(t *testing.T) {
			if why := unfit(row, target); why != "" {
				t.Skip(why)
			}
			t.Parallel()
			row.Run(newC(t, row, p))
		})
	}
}

// unfit says why a target does not run a row; "" if it does.
func unfit(row Case, target Target) string {
	switch {
	case row.Skip != "":
		return row.Skip
	case row.Only != "" && row.Only != target.Name && row.Only != target.Store:
		return row.Why
	}
	for need, why := range target.Lacks {
		if row.Need&need != 0 {
			return why
		}
	}
	switch server := slices.Contains(serverStores, target.Store); {
	case tier.Campaigns():
	case !slices.Contains(gated, target.Name+" "+target.Store):
		return "four targets are in the gate: make campaigns runs it over each"
	case server && slices.Contains(beforeTheStore, row.ID[:2]):
		return "every store answers this alike: make campaigns runs it over each"
	}
	return ""
}

// gated are the targets of the gate: each layer, with each kind of store once.
var gated = []string{"middleware memory", "gateway sqlite", "gateway postgres", "gateway redis"}

// beforeTheStore are the families about what is decided before a store is asked: the syntax of
// keys, fingerprints, the gateway's ways to the upstream, and profiles.
var beforeTheStore = []string{"KS", "FP", "GW", "PF"}

func newC(t testing.TB, row Case, p *pool) *C {
	c := &C{TB: t, row: row, target: p.target, name: strings.ToLower(row.ID + "-" + rand.Text()[:8]), pool: p}
	c.srv = p.server(t, Spec{Policy: row.Policy, Need: row.Need}) // which the first case builds, out of its own time
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	t.Cleanup(func() {
		c.srv.Fixture().Release(c.name, 1000) // a case that failed half-way leaves no handler hanging
		if t.Failed() {
			t.Logf("the server said:\n%s", tail(c.srv.Log(), 4000))
		}
	})
	return c
}

// With is the same case at a server with another policy.
func (c *C) With(policy string) *C {
	d := *c
	d.srv = c.pool.server(c.TB, Spec{Policy: policy, Need: c.row.Need})
	return &d
}

// Node is the same case at another node over the same store.
func (c *C) Node(i int) *C {
	d := *c
	d.node = i
	return &d
}

// Named is the same case with a book, a tenant and a default key of its own: rows that hold for a
// list of values use one for each.
func (c *C) Named(part any) *C {
	d := *c
	d.name = fmt.Sprintf("%s-%v", c.name, part)
	c.Cleanup(func() { d.srv.Fixture().Release(d.name, 1000) })
	return &d
}

// Faults steers the store beneath the server.
func (c *C) Faults() Faults { return c.srv.Faults(c.node) }

// Effects demands how often the thing happened.
func (c *C) Effects(n int) {
	c.Helper()
	if got := c.srv.Fixture().Effects(c.name); got != n {
		c.Fatalf("effects: %d, want %d", got, n)
	}
}

// Entered waits until n handlers had their effect, or hang before it.
func (c *C) Entered(n int) {
	c.Helper()
	if err := c.srv.Fixture().Entered(c.ctx, c.name, n); err != nil {
		c.Fatalf("waiting for %d handlers to begin: %v", n, err)
	}
}

// Left waits until n handlers are gone.
func (c *C) Left(n int) {
	c.Helper()
	if err := c.srv.Fixture().Left(c.ctx, c.name, n); err != nil {
		c.Fatalf("waiting for %d handlers to end: %v", n, err)
	}
}

// Release lets n handlers that hang go on.
func (c *C) Release(n int) { c.srv.Fixture().Release(c.name, n) }

// Seen returns the requests as the handler got them, n of them.
func (c *C) Seen(n int) []*http.Request {
	c.Helper()
	all := c.srv.Fixture().Seen(c.name)
	if len(all) != n {
		c.Fatalf("the handler was called %d times, want %d", len(all), n)
	}
	return all
}

// Tenant is the scope the case's requests have, unless they say another.
func (c *C) Tenant() string { return "t1-" + c.name + ":u1" }

// Records demands how many records the store holds for the case's tenant.
func (c *C) Records(n int) []Record {
	c.Helper()
	all, err := c.srv.Records(c.Tenant())
	if err != nil {
		c.Fatalf("listing the records: %v", err)
	}
	if len(all) != n {
		c.Fatalf("records: %+v, want %d", all, n)
	}
	return all
}

// State demands the state of the case's only record.
func (c *C) State(want string) {
	c.Helper()
	if got := c.Records(1)[0].State; got != want {
		c.Fatalf("the record is %s, want %s", got, want)
	}
}

// Until polls for a condition that nothing announces.
func (c *C) Until(what string, is func() bool) {
	c.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			c.Fatalf("waited in vain until %s", what)
		}
	}
}

// pool shares servers among the cases of one target: one per policy.
type pool struct {
	t      testing.TB // the target's own test: it outlives the cases
	target Target

	mu      sync.Mutex
	servers map[string]*shared
}

type shared struct {
	once sync.Once
	srv  Server
	err  error
}

func newPool(t testing.TB, target Target) *pool {
	return &pool{t: t, target: target, servers: map[string]*shared{}}
}

func (p *pool) server(t testing.TB, s Spec) Server {
	t.Helper()
	srv, err := p.open(t, s)
	if err != nil {
		t.Fatalf("opening a server: %v\nwith the policy:\n%s", err, s.Policy)
	}
	return srv
}

func (p *pool) open(t testing.TB, s Spec) (Server, error) {
	if s.Need&private != 0 {
		return p.target.Open(t, s)
	}
	p.mu.Lock()
	one := p.servers[s.Policy]
	if one == nil {
		one = &shared{}
		p.servers[s.Policy] = one
	}
	p.mu.Unlock()
	one.once.Do(func() { one.srv, one.err = p.target.Open(p.t, s) })
	return one.srv, one.err
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
