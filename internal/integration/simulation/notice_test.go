package simulation

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stet-dev/stet"
	"pgregory.net/rapid"
)

// notice is what a provider says of one execution, which was true when it was written. It comes
// when it likes, and as often as it likes.
type notice struct {
	run      *run
	happened bool
	version  stet.Version // of the record then, if that was about this execution
}

// who is the provider in notes.
const who = "provider"

// Notify is a notice that comes: a new one, or one that came before, in whatever life of the key.
func (m machine) Notify(t *rapid.T) { // K01, K02, I14
	w := m.w
	if len(w.notices) == 0 || rapid.Bool().Draw(t, "a new one") {
		w.write(t)
	}
	i := rapid.IntRange(0, len(w.notices)-1).Draw(t, "notice")
	n, e := w.notices[i], w.host(t)
	x, enough := n.named(rapid.SampledFrom([]string{"fence", "fence", "version", "key", "id", "all"}).Draw(t, "named by"))
	var r stet.Resolution
	if n.happened {
		r.Response, r.Kept = &stet.Response{Status: 201}, stet.KeptStatus
		if rapid.Bool().Draw(t, "with what was found") && !n.run.published {
			r.Response, r.Kept, r.Substitute = answered(n.run), stet.KeptWhole, true
		}
	}
	w.networkFaults(t)
	_, err := e.Operator().Resolve(w.ctx, n.run.id, x, r, stet.Note{Who: who, Why: "it says so", Evidence: fmt.Sprint("notice ", i)})
	switch {
	case errors.Is(err, stet.ErrUnnamed) != !enough:
		t.Fatalf("K01: a statement that names %+v was answered %v", x, err)
	case err == nil:
		w.seen.heeded++
	case errors.Is(err, stet.ErrOtherRun):
		w.seen.unheeded++
	}
}

// write is the provider that says of an execution that it has had its effect, or that it had none
// and can have none any more.
func (w *world) write(t *rapid.T) {
	r := w.pick(t, func(r *run) bool { return r.arrived || !w.risked[r.life] })
	n := &notice{run: r, happened: r.arrived}
	w.mu.Lock()
	defer w.mu.Unlock()
	if is := w.stored(r.id); is != nil && is.Fence() == r.fence {
		n.version = is.Version
	}
	r.voided = r.voided || !r.arrived
	w.notices = append(w.notices, n)
}

// named is how the notice says which execution it is about, and whether that is enough.
func (n *notice) named(by string) (x stet.Execution, enough bool) {
	r := n.run
	h := stet.Head{ID: r.id, CreatedAt: r.life}
	switch by {
	case "version":
		if n.version != 0 {
			return stet.Execution{Version: n.version}, true
		}
	case "key":
		return stet.Execution{DownstreamKey: h.LifeKey()}, n.happened
	case "id": // no run has reported one
		return stet.Execution{DownstreamID: fmt.Sprint("ch_", r.fence)}, n.happened
	case "all":
		return stet.Execution{Fence: r.fence, DownstreamKey: h.LifeKey()}, true
	}
	return stet.Execution{Fence: r.fence}, true
}

// about: a statement about one execution changes no other. One that names a life may end any
// attempt of it, and says then that the effect happened.
func (w *world) about(was, is *stet.Record) { // K01
	if is.Note == nil || is.Note.Who != who {
		return
	}
	var i int
	_, said, _ := strings.Cut(is.Note.Evidence, "notice ")
	if _, err := fmt.Sscan(said, &i); err != nil {
		w.t.Error(err)
		return
	}
	n := w.notices[i]
	if is.Note.Action == stet.CauseDoubleEffect {
		if !n.happened || !was.CreatedAt.Equal(n.run.life) || was.Fence() <= n.run.fence {
			w.t.Error("K01: a notice about another life is told as a double effect")
		}
		return
	}
	life := n.happened && was.CreatedAt.Equal(n.run.life)
	if was.Fence() != n.run.fence && !life || n.happened != (is.State == stet.Completed) {
		w.t.Errorf("K01: a notice about one execution has changed another from %v to %v", was.State, is.State)
	}
}
