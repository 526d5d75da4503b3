package simulation

import (
	"cmp"
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/reconcile"
	"pgregory.net/rapid"
)

// Keep is one round of a background loop.
func (m machine) Keep(t *rapid.T) {
	w := m.w
	e, loop := w.host(t), rapid.SampledFrom([]string{"sweep", "reap", "resume"}).Draw(t, "loop")
	w.networkFaults(t)
	switch loop {
	case "sweep":
		w.round(t, maintenance.Sweeper{Engine: e.Engine, Every: time.Second}.Run)
	case "reap":
		w.round(t, maintenance.Reaper{Engine: e.Engine, Every: time.Second}.Run)
	case "resume":
		w.resume(t, e)
	}
}

// Reconcile is one round of a reconciler, and what the provider has to say in it.
func (m machine) Reconcile(t *rapid.T) {
	w := m.w
	e := w.host(t)
	p := provider{w, rapid.SampledFrom([]string{"what it has", "what it has", "that it voids it", "nothing"}).Draw(t, "the provider says"),
		rapid.Bool().Draw(t, "without its answer")}
	w.networkFaults(t)
	w.reconcile(t, e, p)
}

func (w *world) reconcile(t *rapid.T, e *host, p provider) {
	w.round(t, reconcile.Reconciler{Engine: e.Engine, Resolver: p.Resolve, Every: time.Second, Settle: cmp.Or(w.setting.settle, settle)}.Run)
}

// round has a loop begin, do one round, and end.
func (w *world) round(t *rapid.T, run func(context.Context) error) {
	ctx, cancel := context.WithTimeout(w.ctx, 1500*time.Millisecond)
	defer cancel()
	if err := run(ctx); err != nil {
		t.Fatal(err)
	}
}

// resume goes on with what was abandoned at a recovery point.
func (w *world) resume(t *rapid.T, e *host) {
	heads, _, err := e.Operator().Abandoned(w.ctx, stet.Query{})
	if err != nil {
		return
	}
	for _, h := range heads {
		if d, err := e.Operator().Resume(w.ctx, h.ID); err == nil {
			w.execute(t, e, &d, h.Meta["payload"])
		}
	}
}

// provider answers reconcilers truthfully, if at all.
type provider struct {
	w      *world
	says   string
	silent bool
}

func (p provider) Resolve(_ context.Context, h stet.Head) (reconcile.Finding, error) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	done, _ := w.effects(h.ID, h.CreatedAt, nil)
	switch {
	case p.says == "nothing":
		return reconcile.Finding{}, errLost
	case len(done) > 0:
		w.seen.resolved++
		f := reconcile.Finding{Effect: reconcile.Happened, Evidence: receipt(done[0])}
		if !p.silent || h.Published {
			f.Response = answered(done[0])
		}
		if h.Published {
			f.Kept = stet.KeptStatus
		}
		return f, nil
	case p.says == "that it voids it":
		w.seen.resolved++
		w.void(h.ID, h.CreatedAt)
		return reconcile.Finding{Effect: reconcile.Voided, Evidence: "voided"}, nil
	}
	return reconcile.Finding{Effect: reconcile.Missing, Evidence: "no trace of it"}, nil
}

func answered(r *run) *stet.Response { return &stet.Response{Status: 201, Body: []byte(receipt(r))} }

// void has the provider refuse whatever else comes of a life.
func (w *world) void(id stet.ID, life time.Time) {
	for _, r := range w.runs {
		if r.id == id && r.life.Equal(life) {
			r.voided = true
		}
	}
}

// Operate is a person who does what the console offers, and knows what they do: they ask the
// provider before they decide.
func (m machine) Operate(t *rapid.T) {
	w := m.w
	id, e := named(rapid.SampledFrom(keys[:]).Draw(t, "key")), w.host(t)
	h, err := w.store.Get(w.ctx, id)
	if err != nil {
		t.Skip("there is nothing")
	}
	note := stet.Note{Who: "ann", Why: "asked the provider", Evidence: "its answer"}
	do := rapid.SampledFrom([]string{"resolve", "purge", "extend", "free blindly"}).Draw(t, "do")
	w.networkFaults(t)
	switch do {
	case "resolve":
		_, _ = e.Operator().Resolve(w.ctx, id, execution.Of(w.ctx, e.Engine, id), w.verdict(&h), note)
	case "free blindly": // it is theirs if there are two effects then
		_, _ = e.Operator().Resolve(w.ctx, id, execution.Of(w.ctx, e.Engine, id), stet.Resolution{Override: true}, stet.Note{Who: blind, Why: "the customer is waiting", Evidence: "none"})
	case "purge":
		_ = e.Operator().Purge(w.ctx, id, 0, note)
	case "extend":
		_, _ = e.Operator().Extend(w.ctx, id, 0, 2*retain, note)
	}
}

// verdict is what the provider knows, who accepts no more of it where that is nothing.
func (w *world) verdict(h *stet.Record) (r stet.Resolution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	done, _ := w.effects(h.ID, h.CreatedAt, nil)
	if len(done) == 0 {
		w.void(h.ID, h.CreatedAt)
		return r
	}
	if r.Response = answered(done[0]); h.Published {
		r.Kept = stet.KeptStatus
	}
	return r
}
