package bulk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/reconcile"
)

// State is how far a job has come.
type State string

// The states of a job.
const (
	Running   State = "running"   // a process works on it
	Waiting   State = "waiting"   // no process works on it now; a [Jobs.Run] takes it
	Stopped   State = "stopped"   // it keeps its place until [Jobs.Resume]
	Completed State = "completed" // nothing is left to do
	Abandoned State = "abandoned" // no process took it within [Retain]: what is left stays as it is
	Newer     State = "newer"     // a newer version of Stet has written it: this one cannot read it, and leaves it alone
)

// Job is an order and what has become of it, as of its last recovery point.
type Job struct {
	ID     string
	State  State
	Order      // Expect is what matched, and Query what is walked
	Total  int // how many records it is about: Expect, or Limit where that is less
	Done   int // changed by this job
	Failed int // could not be changed
	Left   int // still to be changed; of a completed job: left as they were, each for a reason
	// Errors are the records that failed or were left, up to maxErrors of them; all are counted.
	Errors []Failure
	// UpdatedAt is when it last came to a recovery point, CompletedAt when it ended. All are by the
	// store's clock.
	CreatedAt, UpdatedAt, CompletedAt time.Time
}

// Failure is a record that could not be changed, or was left as it is, and why.
type Failure struct {
	ID     string     `json:"id"` // see [stet.Engine.Tag]
	Scope  stet.Scope `json:"scope"`
	Cause  string     `json:"cause"`         // a word, for programs
	Detail string     `json:"detail"`        // a sentence, for people
	Left   bool       `json:"left,omitzero"` // it is counted as left, not as failed
}

// maxErrors is how many failures of a job are named. They are written with each recovery point.
const maxErrors = 2000

var (
	errMoved    = errors.New("bulk: others have changed it")
	errUnproven = errors.New("bulk: nothing has shown that it did not happen")
	errPast     = errors.New("bulk: its instant is over")
	errUnable   = errors.New("bulk: there is no probe")
)

// cause is a reason why a record cannot be changed, for programs and for people.
type cause struct {
	err        error
	word, text string
}

var causes = []cause{
	{stet.ErrCorrupt, "corrupt-record", "it cannot be read: its row is damaged, or sealed with a key that is not at hand"},
	{stet.ErrContradicted, "contradicted", "the handler's own answer says otherwise: look at it, and resolve it"},
	{stet.ErrFound, "found", "a probe said that it happened: resolve it, or ask again"},
	{errMoved, wordMoved, "others have changed it since it was chosen: it is as they left it"},
	{reconcile.ErrNotKnown, wordSilent, "neither a late answer nor its last probe says what happened: ask about it, or resolve it by itself"},
	{errUnproven, "unproven", "nothing proves that it did not happen: no probe has found that out, or no trace is no proof here; look at it, and release it by itself"},
	{stet.ErrKeptLonger, "kept-longer", "its result is kept for longer already, and extend only lengthens"},
	{errPast, "past", "the instant it was to be snoozed until was over"},
	{errUnable, "no-probe", "no probe is configured where the job ran: set reconcile.probe.url"},
	{reconcile.ErrNoAnswer, "probe-failed", "the probe got no answer: see that reconcile.probe.url answers, and ask again"},
	{stet.ErrAttended, "not-settled", notSettled},
	{stet.ErrNotSettled, "not-settled", notSettled},
	{stet.ErrState, "wrong-state", "its state does not allow this: look at it"},
	{stet.ErrRefused, "too-large", "the store cannot keep a result of this size: resolve it by its status alone"},
	{nil, "store-unavailable", "the store gave no answer about it: try it again"},
}

// causeOf is the cause of an error. The last is for all others.
func causeOf(err error) cause {
	i := slices.IndexFunc(causes, func(c cause) bool { return c.err == nil || errors.Is(err, c.err) })
	return causes[i]
}

// The words of what is left, not failed.
const wordMoved, wordSilent = "changed-meanwhile", "no-answer"

const notSettled = "its attempt ended only just now, or has not ended, and may still have its effect: " +
	"try it again later, or release it all the same (--now, \"now\": true)"

// ErrNewer is returned for a job that this version cannot read, because a newer one has written it:
// it has a format, a member, or an action that is not known here, and may spare records by it. It
// is left alone, and a process of that version goes on with it.
var ErrNewer = errors.New("bulk: a newer version of Stet has written this job, which this one cannot read: it is left alone")

// format is that of the jobs that this version writes. Jobs from before there were formats have 0,
// and the same members.
const format = 1

// stored is a job as its record keeps it.
type stored struct {
	Format int `json:",omitzero"`
	Order  Order
	Key    string    `json:",omitzero"` // of the order's query: as a [stet.Key] it never leaves a program as JSON
	Before time.Time // records that came into their state later are left alone; by the store's clock
	Total  int
	progress
}

// progress is how far a job has come, as of a recovery point.
type progress struct {
	After  string   // the cursor of the page after Page
	Last   bool     // there is no page after Page
	Taken  int      // records on all pages so far
	Page   []target `json:",omitzero"` // the records that are being changed; any of them may have been changed already
	Tries  int      `json:",omitzero"` // how often the store did not answer about any record of Page
	Done   int
	Failed int
	Errors []Failure `json:",omitzero"`
}

// target is a record as the walk listed it.
type target struct {
	Scope stet.Scope
	Key   string
	State stet.State
	Basis string // it is changed at this one alone
}

func newTarget(h *stet.Head) target {
	return target{Scope: h.Scope, Key: string(h.Key), State: h.State, Basis: h.Basis()}
}

func (t *target) id() stet.ID { return stet.ID{Scope: t.Scope, Key: stet.Key(t.Key)} }

func (s *stored) encode() ([]byte, error) {
	s.Format = format
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("bulk: a job cannot be stored: %w", err)
	}
	return b, nil
}

// decode reads the latest that a record has of a job: its end, a recovery point, or the order. The
// error is [ErrNewer] if it has anything that this version does not know.
func decode(b *stet.Body) (s stored, err error) {
	doc := b.Request
	switch {
	case b.Response != nil:
		doc = b.Response.Body
	case b.Progress != nil:
		doc = b.Progress
	}
	if !json.Valid(doc) {
		return s, fmt.Errorf("%w: it is no job", stet.ErrCorrupt)
	}
	strict := json.NewDecoder(bytes.NewReader(doc))
	strict.DisallowUnknownFields()
	if strict.Decode(&s) != nil || s.Format < 0 || s.Format > format || !slices.Contains(Actions, s.Order.Action) {
		return stored{}, ErrNewer
	}
	s.Order.Query.Key = stet.Key(s.Key)
	return s, nil
}

func jobOf(r *stet.Record) (Job, error) {
	s, err := decode(&r.Body)
	switch {
	case errors.Is(err, ErrNewer):
		return Job{ID: string(r.Key), State: Newer, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, CompletedAt: r.CompletedAt}, nil
	case err != nil:
		return Job{}, err
	}
	for i := range s.Errors { // they are stored without their sentences
		f := &s.Errors[i]
		for _, c := range causes {
			if c.word == f.Cause {
				f.Detail = c.text
			}
		}
	}
	j := Job{ID: string(r.Key), Order: s.Order, Total: s.Total, Done: s.Done, Failed: s.Failed,
		Left: max(0, s.Total-s.Done-s.Failed), Errors: s.Errors, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, CompletedAt: r.CompletedAt}
	switch {
	case r.State == stet.Completed:
		j.State = Completed
	case r.State != stet.Running:
		j.State = Abandoned
	case r.Over() || r.Cause == stet.CauseSuspended:
		j.State = Waiting
	default:
		j.State = Running
	}
	return j, nil
}
