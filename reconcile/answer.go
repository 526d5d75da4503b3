package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
)

const (
	// Silent is what a probe has found that got no answer: see [stet.LastProbe].
	Silent = "silent"
	// ActionProbe is the action of the entry about a question that an operator has asked: see
	// [stet.Note].
	ActionProbe = "probe"
	// ActionContradiction is the action of the entry that keeps what a provider's notice said which
	// the record contradicts.
	ActionContradiction = "contradiction"
)

// maxEvidence bounds the evidence of an answer, in bytes: there is one with each record.
const maxEvidence = 500

// answerTo describes what came of a question; err says that there was no finding.
func answerTo(f *Finding, err error, took time.Duration) stet.LastProbe {
	a := stet.LastProbe{Took: took, Found: f.Effect.String(), Status: f.Status, Evidence: f.Evidence}
	if err != nil {
		a = stet.LastProbe{Took: took, Found: Silent, Evidence: err.Error()}
	}
	if len(a.Evidence) > maxEvidence {
		a.Evidence = strings.ToValidUTF8(a.Evidence[:maxEvidence], "") + "…"
	}
	return a
}

// inWords is an answer as the history has it, such as "missing, status 404, in 12ms: the probe was
// answered 404".
func inWords(a *stet.LastProbe) string {
	s := a.Found
	if a.Status != 0 {
		s += fmt.Sprintf(", status %d", a.Status)
	}
	s += ", in " + strconv.FormatFloat(float64(a.Took.Round(10*time.Microsecond).Microseconds())/1000, 'f', -1, 64) + "ms"
	if a.Evidence != "" {
		s += ": " + a.Evidence
	}
	return s
}

// leave keeps an answer that ended nothing with the record that was asked about, and in the history
// where a person has asked, or where the record has come to an end meanwhile.
func (r Reconciler) leave(ctx context.Context, h *stet.Head, a *stet.LastProbe, asked *stet.Note) (stet.Head, error) {
	note := stet.Note{Who: r.Who, Why: fmt.Sprintf("probe %d of %d", h.Probes, r.MaxProbes)}
	if asked != nil {
		note = *asked
		asked = &note
	}
	note.Action, note.Evidence = ActionProbe, inWords(a)
	now, err := r.Engine.Operator().Probed(ctx, h, *a, asked)
	if errors.Is(err, stet.ErrState) || errors.Is(err, stet.ErrOtherRun) {
		if err = r.Engine.Operator().AuditOf(ctx, h, note); errors.Is(err, stet.ErrUnsupported) {
			err = nil
		}
		return *h, err
	}
	return now, err
}

// ErrNotKnown is returned for a record of which nothing says that it happened.
var ErrNotKnown = errors.New("reconcile: neither a late answer nor its last probe says that it happened")

// Adopt ends an unknown record as what is known of it already says: its late answer is what its
// retries get or, if it has none, the status with which the last probe found it. The note's
// evidence says so. It holds for the version that was read. The errors are [ErrNotKnown], and those
// of [stet.Operator.Resolve].
func Adopt(ctx context.Context, e *stet.Engine, rec *stet.Record, n stet.Note) (stet.Head, error) {
	res, evidence := adopted(rec), "the answer is the one that came too late"
	switch {
	case rec.State != stet.Unknown:
		return rec.Head, stet.ErrState
	case rec.Response == nil:
		a, ok := rec.LastProbe()
		if !ok || a.Found != stet.FoundHappened || a.Status < 200 {
			return rec.Head, ErrNotKnown
		}
		res = stet.Resolution{Response: &stet.Response{Status: a.Status}}
		if evidence = "its last probe: " + inWords(&a); rec.Published {
			res.Kept = stet.KeptStatus
		}
	}
	n.Evidence = strings.TrimPrefix(n.Evidence+"; "+evidence, "; ")
	return e.Operator().Resolve(ctx, rec.ID, stet.Execution{Fence: rec.Fence(), Version: rec.Version}, res, n)
}

// adopted ends a record with the answer that came too late: an unknown record has no other.
func adopted(rec *stet.Record) stet.Resolution {
	res := stet.Resolution{Response: rec.Response, Kept: rec.Kept}
	if rec.Published {
		res.Kept = stet.KeptStatus // its bytes have left, and were seen by who asked
	}
	return res
}
