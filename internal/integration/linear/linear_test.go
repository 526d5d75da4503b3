// Package linear holds engines on one store against a key that does one thing at a time: whatever
// clients, operators and the wire between them did at once, there has to be an order of it in
// which every answer is right.
package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/internal/integration/opened"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// A check takes long where a key has many operations whose end is not known: many keys with few
// operations each.
const (
	keys    = 12
	perKey  = 8
	clients = 4
	limit   = time.Minute // of one check
	abreast = 4           // histories of one store at a time
)

// patience is how long a request waits for another that is in progress.
const patience = 5 * time.Millisecond

// client is a host with an engine and what it holds.
type client struct {
	h      *history
	e      *stet.Engine
	wire   *wire
	number int
	random *rand.Rand
	held   []held
}

type held struct {
	claim *stet.Claim
	key   int
	owner int
}

// work does what comes to its mind while there are operations left.
func (c *client) work(ctx context.Context) {
	for range keys * perKey / clients * 2 {
		key := c.random.IntN(keys)
		if c.h.left[key].Add(-1) < 0 {
			continue
		}
		c.wire.faults.Store([]*faults{&noFaults, &noFaults, &fewFaults, &fewFaults, &manyFaults}[c.random.IntN(5)])
		switch n := c.random.IntN(12); {
		case n < 4 && len(c.held) > 0:
			c.settle(ctx, c.random.IntN(len(c.held)), []ending{{as: done}, {as: done}, {as: unknown}, {unknown, true}, {as: open}}[c.random.IntN(5)])
		case n < 8:
			c.begin(ctx, key)
		case n < 9:
			c.operate(ctx, key)
		case n < 10 && len(c.held) > 0:
			c.notice(ctx, c.held[c.random.IntN(len(c.held))], c.random.IntN(2) == 0)
		case n < 11:
			c.overtaken(ctx, key)
		default:
			c.get(ctx, key)
		}
	}
	for len(c.held) > 0 { // what is held would keep others out
		c.settle(ctx, 0, ending{as: done})
	}
}

func (c *client) id() int { return int(c.h.next.Add(1)) }

func (c *client) begin(ctx context.Context, key int) {
	in, began := input{verb: begin, key: key, id: c.id()}, c.h.now()
	ctx, _ = in.asking(ctx)
	d, err := c.e.Begin(ctx, stet.Request{ID: c.h.id(key), Subject: stet.Subject{Body: []byte("1")}})
	if err == nil && d.Verdict == stet.InProgress && c.random.IntN(2) == 0 {
		if seen, failed := c.e.Await(ctx, d, patience); failed == nil {
			d = seen
		}
	}
	out := output{word: failed}
	switch {
	case err != nil:
		c.h.gaveUp(in.id)
		c.h.add(c.number, began, input{verb: forget, key: key, id: c.id(), owner: in.id}, out)
	case d.Verdict == stet.Execute:
		c.h.grants(d.Record.Version)
		out.word, out.fence = execute, d.Claim.Fence()
		c.held = append(c.held, held{d.Claim, key, in.id})
	case d.Verdict == stet.Replay:
		out.word, out.body = replay, string(d.Record.Response.Body)
	case d.Verdict == stet.InProgress:
		out.word = inProgress
	case d.Verdict == stet.Unresolved:
		out.word = unresolved
	default:
		c.h.t.Errorf("begin: %v", d.Verdict)
	}
	c.h.add(c.number, began, in, out)
}

// ending is how a claim is settled.
type ending struct {
	as    phase
	works bool // the handler has not returned
}

// settle ends a claim; one that was ended as unknown may be ended once more, whether that was
// answered or not.
func (c *client) settle(ctx context.Context, i int, how ending) {
	h := c.held[i]
	in := input{verb: settle, key: h.key, id: c.id(), owner: h.owner, as: how.as, works: how.works}
	var o stet.Outcome
	switch in.as {
	case done:
		h.claim.Completed()
		in.body = fmt.Sprint("settled ", in.id)
		o.Response = stet.Response{Status: 201, Body: []byte(in.body)}
	case unknown:
		if h.claim.Unknown("lost"); how.works {
			h.claim.Overdue("late")
		}
	case open:
		h.claim.NotExecuted("refused")
	case running:
	}
	began := c.h.now()
	ctx, a := in.asking(ctx)
	err := h.claim.Settle(ctx, o)
	out := output{word: failed, again: a.lost.Load()}
	switch {
	case err == nil:
		out.word = ok
	case errors.Is(err, stet.ErrFenced) && !out.again: // else its own engine was in its way, and stores it later
		out.word = fenced
	}
	c.h.add(c.number, began, in, out)
	if out.word == fenced && in.as == done {
		c.tells(in)
	}
	if in.as != unknown {
		c.held = slices.Delete(c.held, i, i+1)
	}
}

// worded is the answer to an operator.
func worded(err error) word {
	switch {
	case err == nil:
		return ok
	case errors.Is(err, stet.ErrState): // also if a result says otherwise than the evidence
		return refused
	case errors.Is(err, stet.ErrAttended), errors.Is(err, stet.ErrContradicted):
		return doubted
	case errors.Is(err, stet.ErrOtherRun):
		return another
	case errors.Is(err, stet.ErrNotFound):
		return absent
	}
	return failed
}

// operate is what people do.
func (c *client) operate(ctx context.Context, key int) {
	switch c.random.IntN(3) {
	case 0:
		c.purge(ctx, key)
	case 1:
		c.resolve(ctx, input{key: key, as: open})
	case 2:
		c.resolve(ctx, input{key: key, as: done})
	}
}

func (c *client) purge(ctx context.Context, key int) {
	in, began := input{verb: purge, key: key, id: c.id()}, c.h.now()
	ctx, a := in.asking(ctx)
	err := c.e.Operator().Purge(ctx, c.h.id(key), 0, stet.Note{Who: "operator", Why: "test"})
	c.h.add(c.number, began, in, output{word: worded(err), again: a.lost.Load()})
}

// resolve is a person who reads a record, and says what became of the execution that it is about:
// of that one alone, should the next have begun meanwhile.
func (c *client) resolve(ctx context.Context, in input) {
	in.verb, in.id = resolve, c.id()
	r := stet.Resolution{Now: in.works}
	if in.as == done {
		in.body = fmt.Sprint("resolved ", in.id)
		r.Response = &stet.Response{Status: 200, Body: []byte(in.body)}
	}
	began := c.h.now()
	ctx, a := in.asking(ctx)
	of := execution.Of(ctx, c.e, c.h.id(in.key))
	have, err := c.e.Operator().Resolve(ctx, c.h.id(in.key), of, r, stet.Note{Who: "operator", Why: "test"})
	out := output{word: worded(err), again: a.lost.Load()}
	if out.word == another {
		in.owner = earlier
	}
	c.h.add(c.number, began, in, out)
	earlierOfThisLife := out.word == another && of.Fence > have.CreatedAt.UnixMicro()
	if in.as == done && (earlierOfThisLife || out.byFree(&have)) {
		c.tells(in)
	}
}

func (c *client) get(ctx context.Context, key int) {
	in, began := input{verb: get, key: key, id: c.id()}, c.h.now()
	r, err := c.e.Get(ctx, c.h.id(key))
	out := output{word: shown}
	switch {
	case errors.Is(err, stet.ErrNotFound):
		out.phase = open
	case err != nil:
		return // it has told nothing, and done nothing
	case r.State == stet.Running:
		out.phase = running
	case r.State == stet.Unknown:
		out.phase = unknown
	case r.State == stet.Completed:
		out.phase, out.body = done, string(r.Response.Body)
	default:
		out.phase = open
	}
	c.h.add(c.number, began, in, out)
}

// record runs clients on a store, and returns what they did.
func record(t *testing.T, s stet.Store, seed uint64, within time.Duration) []porcupine.Operation {
	h := newHistory(t, seed)
	all := h.clients(s, seed, within)
	var working sync.WaitGroup
	for _, c := range all {
		working.Go(func() { c.work(context.Background()) })
	}
	working.Wait()
	return h.end(all)
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{t: t, name: fmt.Sprint(seed), began: time.Now(), granted: map[stet.Version]bool{}, given: map[int]bool{}}
	for key := range keys {
		h.left[key].Store(perKey)
	}
	return h
}

// clients are those of a history, whose wires have no faults yet.
func (h *history) clients(s stet.Store, seed uint64, within time.Duration) (all []*client) {
	for i := range clients {
		w := &wire{Store: s, h: h, random: rand.New(rand.NewPCG(seed, uint64(i)))}
		w.faults.Store(&noFaults)
		e, err := stet.New(w, stet.Config{StoreTimeout: within, Policy: stet.Policy{Lease: time.Hour}}) // nothing lapses
		if err != nil {
			panic(err)
		}
		all = append(all, &client{h: h, e: e, wire: w, number: i, random: rand.New(rand.NewPCG(seed, uint64(i)+100))})
	}
	return all
}

// end waits until what is on its way has arrived, looks at all keys, and returns what was done.
func (h *history) end(all []*client) []porcupine.Operation {
	for _, c := range all {
		c.wire.faults.Store(&noFaults)
	}
	for _, c := range all {
		if err := c.e.Drain(h.t.Context()); err != nil {
			h.t.Error(err)
		}
		c.wire.flying.Wait()
	}
	for key := range keys {
		all[0].get(h.t.Context(), key)
	}
	return h.complete()
}

// told is the history of one key, in order.
func told(ops []porcupine.Operation, key int) string {
	var b strings.Builder
	slices.SortFunc(ops, func(x, y porcupine.Operation) int { return int(x.Call - y.Call) })
	for _, op := range ops {
		if in := op.Input.(input); in.key == key {
			_, _ = fmt.Fprintf(&b, "%10d %10d client %d: %+v: %+v\n", op.Call/1000, min(op.Return, int64(time.Hour))/1000, op.ClientId, in, op.Output)
		}
	}
	return b.String()
}

// histories is how many of a store are checked.
func histories() int {
	switch {
	case os.Getenv("STET_SOAK") != "":
		return 2000
	case tier.Campaigns():
		return 50
	}
	return 5
}

// Engines on several hosts are one, whatever gets lost, comes late or comes twice between them
// and their store.
func TestLinearizable(t *testing.T) { // I1, I2, I3, W2, W5, W16, A14
	for name, open := range opened.Stores {
		t.Run(name, func(t *testing.T) {
			tier.Campaign(t, "what clients do at once differs from run to run, and takes the store's time")
			s, patience := open(t), 150*time.Millisecond
			switch name {
			case "memory":
				patience = 50 * time.Millisecond
			case "sqlite": // it waits for the disk
				patience = 500 * time.Millisecond
			}
			counts, began := map[string]int{}, time.Now()
			var mu sync.Mutex
			var checking sync.WaitGroup
			slots := make(chan struct{}, abreast) // most of a history is waiting
			for seed := range histories() {
				if slots <- struct{}{}; t.Failed() {
					break
				}
				checking.Go(func() {
					defer func() { <-slots }()
					ops := record(t, s, uint64(seed), patience)
					if result := porcupine.CheckOperationsTimeout(model, ops, limit); result != porcupine.Ok {
						t.Errorf("history %d is %s\n%s", seed, result, wrong(ops))
					}
					mu.Lock()
					defer mu.Unlock()
					for _, op := range ops {
						counts[fmt.Sprint(op.Input.(input).verb, " ", op.Output.(output).word)]++
					}
				})
			}
			checking.Wait()
			t.Logf("%d histories in %s: %v", histories(), time.Since(began).Truncate(time.Millisecond), counts)
			for _, there := range []string{"begin execute", "begin failed", "begin replay", "begin in-progress", "begin unresolved", "settle ok",
				"settle failed", "settle fenced", "resolve ok", "resolve another", "resolve doubted", "returns failed", "purge ok"} {
				if counts[there] == 0 && tier.Campaigns() {
					t.Errorf("no %s in any history", there)
				}
			}
		})
	}
}

// wrong are the keys whose histories have no order.
func wrong(ops []porcupine.Operation) string {
	for key := range keys {
		var own []porcupine.Operation
		for _, op := range ops {
			if op.Input.(input).key == key {
				own = append(own, op)
			}
		}
		if porcupine.CheckOperationsTimeout(model, own, limit) != porcupine.Ok {
			return told(own, key)
		}
	}
	return ""
}

// A store that does not compare is found out soon.
func TestBrokenStoresAreFoundOut(t *testing.T) {
	tier.Campaign(t, "it races until it has found each flaw")
	for name, broken := range map[string]func(stet.Store) stet.Store{
		"creates over what is there": func(s stet.Store) stet.Store { return careless{s} },
		"replaces any version":       func(s stet.Store) stet.Store { return overwriting{s} },
	} {
		t.Run(name, func(t *testing.T) {
			s := broken(opened.Stores["memory"](t))
			for seed := range 50 {
				if result := porcupine.CheckOperationsTimeout(model, record(t, s, uint64(seed), 50*time.Millisecond), limit); result == porcupine.Illegal {
					t.Logf("found out by history %d", seed)
					return
				}
			}
			t.Error("50 histories are in order")
		})
	}
}
