package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/storeid"
)

// site is where sited stores keep what they have, such as a server.
type site struct {
	*model
	mu sync.Mutex
	id stet.Identity
}

func (p *site) read() stet.Identity {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id
}

// sited is a handle on a site.
type sited struct {
	*site
	*storeid.Gate
}

// sitedFaults are what may be wrong with a sited store.
type sitedFaults struct {
	noGate  func(p *sited) stet.Store // instead of the store
	look    func(now stet.Identity, looks int) stet.Identity
	noRaise bool
	forgets bool // its identity when it is opened again
	noList  bool // of what it replaces
	oneID   bool

	ownClock bool // each handle has one
}

func (n *sited) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	if err := n.Write(ctx); err != nil {
		return stet.Record{}, err
	}
	return n.model.Create(ctx, r)
}

func (n *sited) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	if err := n.Write(ctx); err != nil {
		return stet.Head{}, err
	}
	return n.model.Replace(ctx, prev, h, b)
}

func (n *sited) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	if err := n.Write(ctx); err != nil {
		return err
	}
	return n.model.Delete(ctx, id, prev)
}

func (n *sited) Close() error { n.Gate.Close(); return nil }

// sitedBackend is a backend of sited stores, each directory of which is a site.
func sitedBackend(wrong sitedFaults) Backend {
	var mu sync.Mutex
	places := map[string]*site{}
	return Backend{Durable: true, Shared: true,
		Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
			mu.Lock()
			defer mu.Unlock()
			if clock == nil {
				clock = time.Now
			}
			p := places[dir]
			if p == nil {
				p = &site{model: newModel(clock)}
				places[dir] = p
			}
			if wrong.forgets {
				p.id = stet.Identity{}
			}
			looks := 0
			n := &sited{p, &storeid.Gate{
				Look: func(context.Context) (stet.Identity, error) {
					now := p.read()
					if looks++; wrong.look != nil {
						now = wrong.look(now, looks)
					}
					return now, nil
				},
				Make: func(_ context.Context, was, next stet.Identity) error {
					p.mu.Lock()
					defer p.mu.Unlock()
					if wrong.noList {
						next.Replaces = nil
					}
					if wrong.oneID {
						next.ID = "st_one"
					}
					if p.id.ID == was.ID {
						p.id = next
					}
					return nil
				}}}
			if !wrong.noRaise {
				n.Raise = func(_ context.Context, known stet.Identity, step string) (stet.Identity, error) {
					p.mu.Lock()
					defer p.mu.Unlock()
					if p.id.ID == known.ID && p.id.Mark >= known.Mark {
						p.id.Mark++
						p.id.Trail = (step + p.id.Trail)[:min(storeid.TrailSize, len(step)+len(p.id.Trail))]
					}
					return p.id, nil
				}
			}
			if err := n.Open(context.Background()); err != nil {
				t.Fatal(err)
			}
			if wrong.ownClock {
				own := newModel(clock)
				own.modelVerbs.read, own.write = p.model.modelVerbs.read, p.write
				return &unlooked{own, n.Gate, p, false}
			}
			if wrong.noGate != nil {
				return wrong.noGate(n)
			}
			return n
		},
		Backup: func(_ testing.TB, s stet.Store) func() {
			p := siteOf(s)
			data, id := p.seen(), p.read()
			return func() { p.set(data, id) }
		},
		Empty: func(_ testing.TB, s stet.Store) { siteOf(s).set(modelData{}, stet.Identity{}) },
	}
}

func siteOf(s stet.Store) *site {
	if n, ok := stet.As[*sited](s); ok {
		return n.site
	}
	return s.(interface{ at() *site }).at()
}

func (p *site) set(data modelData, id stet.Identity) {
	p.put(data)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id = id
}

// unlooked has the identity of a sited store, and does not look at it.
type unlooked struct {
	*model
	*storeid.Gate
	p       *site
	replace bool // looks with Replace and Delete alone
}

func (u *unlooked) at() *site { return u.p }

func (u *unlooked) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	if !u.replace {
		if err := u.Write(ctx); err != nil {
			return stet.Record{}, err
		}
	}
	return u.model.Create(ctx, r)
}

func unlook(replace bool) func(n *sited) stet.Store {
	return func(n *sited) stet.Store { return &unlooked{n.model, n.Gate, n.site, replace} }
}

// identityBreaks are breaks of a store with an identity.
var identityBreaks = []struct {
	what, law string
	wrong     sitedFaults
}{
	{"it gets another ID when it is opened", "identity", sitedFaults{forgets: true}},
	{"all stores have one ID", "identity", sitedFaults{oneID: true}},
	{"each handle goes by its own clock", "a clock behind", sitedFaults{ownClock: true}},
	{"its mark stays", "identity", sitedFaults{noRaise: true}},
	{"its mark stays", "set back", sitedFaults{noRaise: true}},
	{"new keys are taken", "set back", sitedFaults{noGate: unlook(true)}},
	{"results are taken", "set back", sitedFaults{noGate: unlook(false)}},
	{"new keys are taken", "emptied", sitedFaults{noGate: unlook(true)}},
	{"results are taken", "emptied", sitedFaults{noGate: unlook(false)}},
	{"it does not say what it replaces", "set back", sitedFaults{noList: true}},
	{"it does not say what it replaces", "emptied", sitedFaults{noList: true}},
	{"new keys are taken", "another expected", sitedFaults{noGate: unlook(true)}},
	{"it does not say what it replaces", "another expected", sitedFaults{noList: true}},
}

// The laws of identity hold for a store that keeps them.
func TestNamedStoresKeepTheLaws(t *testing.T) {
	for _, l := range identityLaws {
		if got := try(t, l, sitedBackend(sitedFaults{})); got.failed || got.skipped {
			t.Errorf("%s: %s", l.name, got)
		}
	}
}
