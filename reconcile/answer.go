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

// Answer is what a probe that ended nothing was answered. Each leaves one with its record, in the
// history: a write of the record itself would give it another version, and so overtake an operator
// who decides at the same time.
type Answer struct {
	At       time.Time // by the store's clock
	Took     time.Duration
	Found    string // an [Effect]'s name, or [Silent]
	Status   int    // of the HTTP answer; 0 where there was none
	Evidence string // what the finding said, or why there was none
}

const (
	// Silent is what a probe has found that got no answer.
	Silent = "silent"
	// ActionProbe is the action of the entry that an [Answer] is kept in: see [stet.Note].
	ActionProbe = "probe"
	// ActionContradiction is the action of the entry that keeps what a provider's notice said which
	// the record contradicts.
	ActionContradiction = "contradiction"
)

// maxEvidence bounds the evidence of an answer, in bytes: there may be one for each probe of each
// record.
const maxEvidence = 500

// answerTo describes what came of a question; err says that there was no finding.
func answerTo(f *Finding, err error, took time.Duration) Answer {
	a := Answer{Took: took, Found: f.Effect.String(), Status: f.Status, Evidence: f.Evidence}
	if err != nil {
		a = Answer{Took: took, Found: Silent, Evidence: err.Error()}
	}
	if len(a.Evidence) > maxEvidence {
		a.Evidence = strings.ToValidUTF8(a.Evidence[:maxEvidence], "") + "…"
	}
	return a
}

// String is the text that the history has as evidence, such as "missing, status 404, in 12ms: the
// probe was answered 404".
func (a Answer) String() string {
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

// AnswerOf reads the answer that an entry of the history keeps, if it keeps one.
func AnswerOf(c *stet.Change) (a Answer, ok bool) {
	if c.Note.Action != ActionProbe {
		return Answer{}, false
	}
	head, evidence, _ := strings.Cut(c.Note.Evidence, ": ")
	words := strings.Split(head, ", ")
	a = Answer{At: c.At, Found: words[0], Evidence: evidence}
	for _, word := range words[1:] {
		var err error
		name, value, _ := strings.Cut(word, " ")
		switch name {
		case "status":
			a.Status, err = strconv.Atoi(value)
		case "in":
			a.Took, err = time.ParseDuration(value)
			ok = err == nil
		}
		if err != nil {
			return Answer{}, false
		}
	}
	return a, ok
}

// Final reports whether the answer says for good what became of the attempt: that it happened, or
// that it was voided. Of all answers about an attempt the last final one counts or, without one,
// the last. A probe that then gets no answer takes nothing from what was found; one that finds no
// trace contradicts it, and people decide.
func (a *Answer) Final() bool { return a.says(Happened, Voided) }

// The bounds of [LastAnswer]: pages, and entries of each. Some stores look through a part of the
// whole history for a page.
const (
	answerPages = 100
	answerPage  = 100
)

// errFar is the error of a record whose answers may lie behind the bounds.
var errFar = errors.New("reconcile: what its probes were answered is not known: the history is too long to be read")

// LastAnswer returns the answer that counts of those to the probes of the record's attempt that
// ended nothing: see [Answer.Final]. It reports false where the history has none, or where the
// store keeps none. It reads a bounded part of the history, and what may lie behind is an error.
func LastAnswer(ctx context.Context, e *stet.Engine, h *stet.Head) (last Answer, ok bool, err error) {
	q := stet.HistoryQuery{ID: h.ID, Limit: answerPage}
	for range answerPages {
		changes, next, err := e.Operator().History(ctx, q)
		if errors.Is(err, stet.ErrUnsupported) {
			return Answer{}, false, nil
		}
		if err != nil {
			return Answer{}, false, err
		}
		for i := range changes {
			c := &changes[i]
			a, is := AnswerOf(c)
			switch {
			case c.At.Before(h.CreatedAt), is && c.Attempt != h.Attempt: // it is older than the attempt
				return last, ok, nil
			case is && a.Final():
				return a, true, nil
			case is && !ok:
				last, ok = a, true
			}
		}
		if q.After = next; next == "" {
			return last, ok, nil
		}
	}
	return Answer{}, false, errFar
}

// leave keeps an answer with the record that was asked about. A store without a history keeps none.
func (r Reconciler) leave(ctx context.Context, h *stet.Head, a Answer, who, why string) error {
	err := r.Engine.Operator().AuditOf(ctx, h, stet.Note{Who: who, Action: ActionProbe, Why: why, Evidence: a.String()})
	if errors.Is(err, stet.ErrUnsupported) {
		return nil
	}
	return err
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
		a, ok, err := LastAnswer(ctx, e, &rec.Head)
		if err != nil {
			return rec.Head, err
		}
		if !ok || a.Found != Happened.String() || a.Status < 200 {
			return rec.Head, ErrNotKnown
		}
		res = stet.Resolution{Response: &stet.Response{Status: a.Status}}
		if evidence = "its last probe: " + a.String(); rec.Published {
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
