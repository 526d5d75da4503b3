package admin

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/keeper"
)

// extend answers POST …/extend: a result is kept for so many seconds from now.
func (h *handler) extend(w http.ResponseWriter, r *http.Request, who principal) {
	var n note
	var wanted float64
	bad := h.read(w, r, n.with(map[string]any{"seconds": &wanted}))
	retain := time.Duration(math.Min(wanted, maxSeconds) * float64(time.Second))
	if bad == nil && retain < time.Second {
		bad = badParameter("seconds", "it is for how long from now the result is kept, at least 1")
	}
	h.change(w, r, who, &n, bad, func(rec *stet.Record) (stet.Head, error) {
		switch longer := rec.State == stet.Completed && rec.DueAt.After(rec.AsOf.Add(retain)); {
		case n.stale(&rec.Head):
			return rec.Head, stet.ErrStale
		case longer:
			return rec.Head, errLonger // no key is free earlier than its client was told
		}
		return h.engine.Operator().Extend(r.Context(), rec.ID, rec.Version, retain, n.by(who))
	})
}

// maxSeconds is a hundred years: longer than any result is of use, and within every store's calendar.
const maxSeconds = 100 * 365 * 24 * 3600

var errLonger = errors.New("admin: it is kept for longer already")

// annotate answers POST …/note: an entry in the audit trail that changes nothing.
func (h *handler) annotate(w http.ResponseWriter, r *http.Request, who principal) {
	var n note
	var text string // what the reason is called where it stands alone
	bad := h.read(w, r, n.with(map[string]any{"text": &text}))
	if bad == nil && text != "" && n.reason != "" {
		bad = badParameter("text", "text and reason are the same; send one")
	}
	n.reason = cmp.Or(n.reason, text)
	h.change(w, r, who, &n, bad, func(rec *stet.Record) (stet.Head, error) {
		if n.stale(&rec.Head) {
			return rec.Head, stet.ErrStale
		}
		entry := n.by(who)
		entry.Action = actionNote
		return rec.Head, h.engine.Operator().Audit(r.Context(), rec.ID, entry)
	})
}

// stale reports whether the change was decided on another version than the record's.
func (n *note) stale(head *stet.Head) bool {
	return n.ifVersion != 0 && stet.Version(n.ifVersion) != head.Version
}

var (
	keptLonger = problem{Status: 409, Code: "state-changed", Title: "The result is kept for longer already", Detail: "Nothing was changed: extend only lengthens. To end it earlier, delete it."}
	noProbe    = problem{Status: 409, Code: "no-probe", Title: "There is nothing to ask",
		Detail: "No probe is configured: set reconcile.probe.url to where the upstream says what it has done; or find out by hand, and resolve it."}
)

// probed is what a question found out, beside the record as it is then.
type probed struct {
	Record
	Probe struct {
		Found    string    `json:"found"` // pending, happened, missing, voided or goes-on
		Evidence string    `json:"evidence,omitzero"`
		Settles  time.Time `json:"settles_at,omitzero"` // with missing: when that begins to be a proof
	} `json:"probe"`
}

// ask answers POST …/probe: it asks now what became of an unknown record. That somebody asked is in the audit trail, whatever
// came of it.
func (h *handler) ask(w http.ResponseWriter, r *http.Request, who principal) {
	var n note
	bad := h.read(w, r, map[string]any{"reason": &n.reason, "if_version": &n.ifVersion})
	switch {
	case bad == nil && n.reason != "" && !n.reasoned():
		bad = &reasonRequired
	case bad == nil && h.Reconciler == nil:
		bad = &noProbe
	}
	if bad != nil {
		bad.write(w)
		return
	}
	rec, err := h.named(r, who)
	switch {
	case err != nil:
		failed(err).write(w)
		return
	case n.stale(&rec.Head):
		stateChanged(&rec.Head).write(w)
		return
	}
	a, err := h.Reconciler.Ask(r.Context(), &rec.Head, who.name, n.reason)
	if !a.Ended && !errors.Is(err, stet.ErrState) {
		entry := stet.Note{Who: who.name, Action: actionProbe, Why: n.reason, Evidence: a.Finding.Evidence}
		if noted := h.engine.Operator().Audit(r.Context(), rec.ID, entry); noted != nil && !errors.Is(noted, stet.ErrUnsupported) {
			failed(noted).write(w)
			return
		}
	}
	if err != nil {
		h.unchanged(&a.Head, err).write(w)
		return
	}
	doc := probed{Record: h.record(&a.Head)}
	doc.Probe.Found, doc.Probe.Evidence = a.Finding.Outcome.String(), a.Finding.Evidence
	if a.Finding.Outcome == keeper.Missing && !a.Ended && h.Settle > 0 {
		doc.Probe.Settles = a.Head.Ended().Add(h.Settle).UTC()
	}
	writeJSON(w, http.StatusOK, doc)
}

func unanswered(err error) *problem {
	return &problem{Status: 502, Code: "probe-failed", Title: "The probe got no answer", Retryable: true,
		Detail: fmt.Sprintf("It is still unknown: %s. See that reconcile.probe.url answers, and ask again.", err)}
}
