package simulation

import (
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/maintenance"
	"pgregory.net/rapid"
)

// Return is a handler whose time was over, and that returns without an outcome.
func (m machine) Return(t *rapid.T) {
	w := m.w
	r := w.pick(t, func(r *run) bool { return r.overdue && !r.over })
	w.networkFaults(t)
	w.change(func() { r.spoken = true })
	r.claim.Returned(w.ctx)
	w.change(func() { r.over, r.overdue = true, false })
}

// Overtake is a process that is cut off for longer than the lease of one of its runs. It is held
// for dead: others end its run on the provider's word, and run the key again. It is back in the
// end, or comes with an answer before they decide.
func (m machine) Overtake(t *rapid.T) { // W8, K03
	w := m.w
	r := w.pick(t, func(r *run) bool { return !r.over && (r.host == w.hosts[0] || r.host == w.hosts[1]) })
	e := w.hosts[0]
	if e == r.host {
		e = w.hosts[1]
	}
	if w.change(func() { w.losses = nil }); !r.doubted && rapid.Bool().Draw(t, "its time is over") {
		w.settle(t, r, "overdue")
	}
	w.change(func() { r.host.cut, e.cut = true, false })
	after(lease + beat)
	w.round(t, maintenance.Sweeper{Engine: e.Engine, Every: time.Second}.Run)
	after(2 * beat)
	if slices.Contains(w.outcomes(r), "completed") && slices.Contains(w.unended(), r) && rapid.Bool().Draw(t, "it answers before") {
		w.change(func() { r.host.cut = false })
		w.settle(t, r, "completed")
	}
	if rapid.Bool().Draw(t, "a reconciler asks") {
		w.reconcile(t, e, provider{w, "what it has", false})
	} else if h, err := w.store.Get(w.ctx, r.id); err == nil && h.Fence() == r.fence {
		v := w.verdict(&h)
		v.Now, v.Substitute = true, true
		_, _ = e.Operator().Resolve(w.ctx, r.id, stet.Execution{Fence: r.fence}, v, stet.Note{Who: "ann", Why: "asked the provider", Evidence: "its answer"})
	}
	before := len(w.runs)
	w.askAt(t, e, question{r.id, r.payload, policies[""]})
	if end := rapid.SampledFrom([]string{"", "unknown", "overdue", "completed"}).Draw(t, "the next run ends"); end != "" && len(w.runs) > before {
		w.settle(t, w.runs[len(w.runs)-1], end)
	}
	w.change(func() { r.host.cut = rapid.Bool().Draw(t, "cut off still") })
}

// Outage is a store that is away for all, and back for all at the same time.
func (m machine) Outage(t *rapid.T) { // R08, K03
	w := m.w
	d := rapid.SampledFrom([]time.Duration{beat, lease / 2, lease + beat, 2 * lease}).Draw(t, "for")
	w.change(func() { w.hosts[0].cut, w.hosts[1].cut = true, true })
	if runs := w.unended(); len(runs) > 0 && rapid.SampledFrom([]bool{true, true, false}).Draw(t, "a run ends meanwhile") {
		r := runs[rapid.IntRange(0, len(runs)-1).Draw(t, "run")]
		w.settle(t, r, rapid.SampledFrom(w.outcomes(r)).Draw(t, "outcome"))
	}
	after(d)
	w.change(func() { w.hosts[0].cut, w.hosts[1].cut, w.losses = false, false, nil })
}
