package stet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
)

// post is a store behind a bad network: requests and answers are lost, calls hang, and copies of
// writes arrive once more, up to hours later, when no caller waits for them any longer.
type post struct {
	*memstore.Store
	*network
	cut atomic.Bool // this process is off from the store
}

// network is what the processes share.
type network struct {
	mu     sync.Mutex
	random *rand.Rand
	copies sync.WaitGroup
	late   int // copies that arrived
}

// luck is what happens to one message.
type luck struct {
	request, answer, hang bool            // lost, lost, and until the deadline
	copies                []time.Duration // after which the write arrives again
}

func (p *network) luck() (l luck) {
	p.mu.Lock()
	defer p.mu.Unlock()
	chance := func(f float64) bool { return p.random.Float64() < f }
	l.request, l.answer, l.hang = chance(0.05), chance(0.08), chance(0.01)
	for chance(0.1) {
		l.copies = append(l.copies, time.Duration(p.random.Int64N(int64([]time.Duration{time.Second, time.Minute, 2 * time.Hour}[p.random.IntN(3)]))))
	}
	return l
}

var errPost = errors.New("lost in the post")

func (p *post) send(ctx context.Context, write func(ctx context.Context, first bool) error) error {
	l := p.luck()
	for _, d := range l.copies {
		p.copies.Go(func() {
			after(d)
			_ = write(context.Background(), false)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.late++
		})
	}
	if l.request || p.cut.Load() {
		return errPost
	}
	if l.hang {
		<-ctx.Done()
	}
	err := write(ctx, true)
	if l.answer || p.cut.Load() {
		return errPost
	}
	return err
}

func (p *post) Create(ctx context.Context, r stet.Record) (got stet.Record, err error) {
	err = p.send(ctx, func(ctx context.Context, first bool) error {
		have, err := p.Store.Create(ctx, r)
		if first {
			got = have
		}
		return err
	})
	return answered(got, err)
}

func (p *post) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (got stet.Head, err error) {
	err = p.send(ctx, func(ctx context.Context, first bool) error {
		have, err := p.Store.Replace(ctx, prev, h, b)
		if first {
			got = have
		}
		return err
	})
	return answered(got, err)
}

func (p *post) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	return p.send(ctx, func(ctx context.Context, _ bool) error { return p.Store.Delete(ctx, id, prev) })
}

// partitions cuts the process off now and then, for longer than a lease or for less.
func (p *post) partitions(ctx context.Context) {
	for ctx.Err() == nil {
		p.mu.Lock()
		calm, cut := time.Duration(p.random.Int64N(int64(time.Minute))), time.Duration(p.random.Int64N(int64(20*time.Second)))
		p.mu.Unlock()
		after(calm)
		p.cut.Store(true)
		after(cut)
		p.cut.Store(false)
	}
}

// provider has the effects, and refuses attempts that were voided.
type provider struct {
	mu      sync.Mutex
	effects map[life]int
	voided  map[stet.Key]int64 // up to this fence
	notices []stormNotice      // of which some come late, and some twice
	told    map[life]string    // the first answer that a client got

	heeded, unheeded int // notices that ended a doubt, and that were about another execution
}

// life is one life of a key.
type life struct {
	key  stet.Key
	born int64
}

func lifeOf(h *stet.Head) life { return life{h.Key, h.CreatedAt.UnixMicro()} }

// stormNotice says what became of one execution.
type stormNotice struct {
	id       stet.ID
	of       stet.Execution
	happened bool
}

func (p *provider) charge(h *stet.Head) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := stet.Execution{Fence: h.Fence()}
	if h.Fence() <= p.voided[h.Key] {
		p.notices = append(p.notices, stormNotice{h.ID, of, false})
		return false
	}
	if len(p.notices)%5 == 0 {
		of = stet.Execution{DownstreamKey: h.LifeKey()}
	}
	p.effects[lifeOf(h)]++
	p.notices = append(p.notices, stormNotice{h.ID, of, true})
	return true
}

// notify delivers notices, the latest and those of long ago.
func (p *provider) notify(ctx context.Context, e *stet.Engine, random *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		after(time.Duration(random.Int64N(int64(10 * time.Second))))
		p.mu.Lock()
		if len(p.notices) == 0 {
			p.mu.Unlock()
			continue
		}
		i := len(p.notices) - 1
		if n%2 == 0 {
			i = random.IntN(len(p.notices))
		}
		m := p.notices[i]
		p.mu.Unlock()
		var r stet.Resolution
		if m.happened {
			r.Response, r.Kept = &stet.Response{Status: 201}, stet.KeptStatus
		}
		_, err := e.Operator().Resolve(ctx, m.id, m.of, r, stet.Note{Who: "provider", Why: "it says so", Evidence: "its ledger"})
		p.mu.Lock()
		switch {
		case err == nil:
			p.heeded++
		case errors.Is(err, stet.ErrOtherRun):
			p.unheeded++
		}
		p.mu.Unlock()
	}
}

// tell is a client that gets the answer of a life: all get the same.
func (p *provider) tell(t *testing.T, l life, body string) { // I2, K02
	p.mu.Lock()
	defer p.mu.Unlock()
	if first, ok := p.told[l]; ok && first != body {
		t.Errorf("key %s was answered %q, and %q before", l.key, body, first)
	}
	p.told[l] = body
}

// Resolve is a [reconcile.Resolver]: it finds the effect, or sees to it that there will be
// none of the attempts so far.
func (p *provider) Resolve(_ context.Context, h stet.Head) (reconcile.Finding, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.effects[lifeOf(&h)] > 0 {
		return reconcile.Finding{Effect: reconcile.Happened, Response: &stet.Response{Status: 201}, Evidence: "found"}, nil
	}
	p.voided[h.Key] = h.Fence()
	return reconcile.Finding{Effect: reconcile.Voided, Evidence: "voided"}, nil
}

// TestStorm has thousands of keys live through everything at once, over three engines in one
// bubble: requests, answers and copies of messages that go astray, hanging calls, handlers beyond
// their lease and beyond their time, sweepers, reapers and reconcilers, notices about whatever
// execution there was, and people who end lives. In the end each life has had its effect once, and
// each client an answer.
func TestStorm(t *testing.T) { // A14, A16, I1, I2, I3, I8, I11, I13, I15, K01, K03, W2, W8, W16, W20
	keys := 2000
	if testing.Short() {
		keys = 200
	}
	synctest.Test(t, func(t *testing.T) {
		store, net := memstore.New(memstore.Config{}), &network{random: rand.New(rand.NewPCG(1, 2))}
		world := &provider{effects: map[life]int{}, voided: map[stet.Key]int64{}, told: map[life]string{}}
		observe, doubled := counted(stet.DoubleEffect)
		ctx, stop := context.WithCancel(t.Context())
		var engines []*stet.Engine
		var loops, clients sync.WaitGroup
		for i := range 3 {
			p := &post{Store: store, network: net}
			loops.Go(func() { p.partitions(ctx) })
			e, err := stet.New(p, stet.Config{Observe: observe, Policy: stet.Policy{Lease: 10 * time.Second, Execution: 8 * time.Second, Rules: stet.Rules{Retain: 12 * time.Hour}}})
			if err != nil {
				t.Fatal(err)
			}
			engines = append(engines, e)
			loops.Go(func() { world.notify(ctx, e, rand.New(rand.NewPCG(uint64(i), 4))) })
			loops.Go(func() { _ = maintenance.Sweeper{Engine: e}.Run(ctx) })
			loops.Go(func() { _ = maintenance.Reaper{Engine: e}.Run(ctx) })
			loops.Go(func() { _ = reconcile.Reconciler{Engine: e, Resolver: world.Resolve, MaxProbes: 100}.Run(ctx) })
		}
		for k := range keys {
			for i, e := range engines {
				clients.Go(func() { stormClient(t, e, world, fmt.Sprint(k), uint64(3*k+i)) })
			}
		}
		clients.Wait()
		stop()
		loops.Wait()
		net.copies.Wait()
		for _, e := range engines {
			if err := e.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		}
		served, lives := map[stet.Key]bool{}, len(world.effects)
		for l, n := range world.effects {
			if served[l.key] = true; n != 1 {
				t.Errorf("key %s had %d effects in one life", l.key, n)
			}
		}
		if len(served) != keys || lives < keys+keys/50 {
			t.Errorf("%d keys, %d with an effect, in %d lives", keys, len(served), lives)
		}
		for _, e := range engines {
			if n, bytes := e.Unstored(); n != 0 || bytes != 0 {
				t.Errorf("%d things of %d bytes are not stored", n, bytes)
			}
		}
		if world.heeded == 0 || world.unheeded == 0 {
			t.Errorf("%d notices were heeded, and %d were about another execution", world.heeded, world.unheeded)
		}
		if n := doubled.Load(); n != 0 {
			t.Errorf("%d double effects were told", n)
		}
		if net.late == 0 {
			t.Error("no copy came late")
		}
	})
}

// stormClient asks until it has an answer, and runs the handler where it is told to.
func stormClient(t *testing.T, e *stet.Engine, world *provider, key string, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	after(time.Duration(random.Int64N(int64(time.Minute))))
	ends := random.IntN(20) == 0 // a life, when it is over: its client asks for another
	for {
		d, err := e.Begin(t.Context(), request(key))
		switch {
		case err != nil:
		case d.Verdict == stet.Replay:
			if r := d.Record; r.Response != nil && len(r.Response.Body) > 0 {
				world.tell(t, lifeOf(&r.Head), string(r.Response.Body))
			}
			if !ends {
				return
			}
			ends = e.Operator().Purge(t.Context(), d.Record.ID, d.Record.Version, stet.Note{Who: "ann", Why: "it shall be done once more"}) != nil
		case d.Verdict == stet.Execute:
			stormHandler(t, d.Claim, world, random)
		case d.Verdict != stet.InProgress && d.Verdict != stet.Unresolved:
			t.Errorf("key %s: %v", key, d.Verdict)
			return
		}
		after(time.Second + time.Duration(random.Int64N(int64(20*time.Second))))
	}
}

// stormHandler charges once, after a time that may be longer than it has, and may not learn whether
// it did.
func stormHandler(t *testing.T, c *stet.Claim, world *provider, random *rand.Rand) {
	lost := make(chan error, 1)
	held := c.Hold(t.Context(), lostFunc(func(cause error) { lost <- cause }))
	deaf := random.IntN(4) == 0 // it does not heed its context
	work := time.NewTimer(time.Duration(random.Int64N(int64(15 * time.Second))))
	defer work.Stop()
	if deaf {
		<-work.C
	} else {
		select {
		case <-work.C:
		case <-held.Done():
		}
	}
	var overdue bool
	select {
	case <-lost:
		overdue = true
		c.Overdue("late")
		_ = c.Settle(t.Context(), stet.Outcome{})
	default:
	}
	if overdue && !deaf {
		c.Returned(t.Context())
		return
	}
	h := c.Head()
	charged := world.charge(&h)
	if random.IntN(5) == 0 { // the provider's answer is lost, or comes too late
		c.Unknown("no-answer")
		_ = c.Settle(t.Context(), stet.Outcome{})
		if random.IntN(2) == 0 {
			c.Returned(t.Context())
			return
		}
		after(time.Duration(random.Int64N(int64(20 * time.Second))))
	}
	if charged {
		c.Completed()
	} else {
		c.NotExecuted("voided")
	}
	o := result(fmt.Sprint("charge ", h.Fence()))
	if err := c.Settle(t.Context(), o); err == nil && charged {
		world.tell(t, lifeOf(&h), string(o.Response.Body))
	}
	c.Returned(t.Context())
}
