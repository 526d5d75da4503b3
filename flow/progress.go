package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/digest"
)

// Errors of records that this program cannot go on with. Nothing of them is changed: a release that
// can will.
var (
	// ErrOtherFlow is returned for a record of another flow.
	ErrOtherFlow = errors.New("flow: the record belongs to another flow")
	// ErrRelease is returned for a record of another release: its state has another schema, or no
	// phase is or was called as its recovery point.
	ErrRelease = errors.New("flow: the record belongs to another release")
)

var errStateTooBig = errors.New("flow: the state is too big")

// maxState is the longest state as JSON, in bytes: it is written with every phase.
const maxState = 256 << 10

// done is the point after the last phase: nothing is left but to answer.
const done = "done"

// progress is what is stored, in the record's Request by the reservation and in its Progress by
// every phase.
type progress struct {
	Flow   string          `json:"flow"`
	Schema int             `json:"schema"`
	State  json.RawMessage `json:"state"`
	// NotSent is the attempt that proved, before it was suspended, that the call of the phase it
	// was in was not made.
	NotSent int `json:"not_sent,omitempty"`
	// Idle is set by an attempt that made no call, and could not tell whether one before it did.
	Idle *idle `json:"idle,omitempty"`
	// Points are those that the runs came to, the last of them the recovery point. The phases
	// before it are through, wherever a later release has them.
	Points []Point `json:"points,omitempty"`
	// Left are the phases that were to come after the recovery point, by their names in the release
	// that wrote it.
	Left []string `json:"left,omitempty"`
}

// Point is a recovery point that the runs of a record came to: the phase that began there, or
// "done" after the last.
type Point struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"` // by the store's clock, as the holder reckons it
}

// Points returns the recovery points that the runs of a record came to, oldest first. It tells
// nothing of the flow's state, and needs no [Flow]. A record that is completed, or is not a flow's,
// has none.
func Points(rec *stet.Record) []Point {
	var p progress
	if json.Unmarshal(stored(rec.Body), &p) != nil || p.Flow == "" {
		return nil
	}
	return p.since(&rec.Head)
}

// since returns the points up to that of h. A reservation that names the first one does not know
// when it is made: that is when the record was.
func (p *progress) since(h *stet.Head) []Point {
	if len(p.Points) == 0 && h.Point != "" {
		return []Point{{h.Point, h.CreatedAt}}
	}
	return p.Points
}

// stored is what the last write left of a flow.
func stored(b stet.Body) []byte {
	if b.Progress == nil {
		return b.Request
	}
	return b.Progress
}

// idle is since when, by the store's clock, the call of a phase cannot have been made, as attempt
// By found.
type idle struct {
	By    int       `json:"by"`
	Since time.Time `json:"since"`
}

// encode returns the state as it is stored, with what p says of the call that a run leaves undone.
func (f *Flow[S]) encode(s *S, p progress) ([]byte, error) {
	state, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("flow: the state cannot be stored: %w", err)
	}
	if len(state) > maxState {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errStateTooBig, len(state), maxState)
	}
	p.Flow, p.Schema, p.State = f.cfg.Name, f.cfg.Schema, state
	return json.Marshal(p)
}

// decode reads what a run left behind. Its errors hold nothing of the state.
func (f *Flow[S]) decode(b stet.Body) (s S, p progress, err error) {
	if json.Unmarshal(stored(b), &p) != nil || p.Flow != f.cfg.Name {
		return s, p, fmt.Errorf("%w than %q", ErrOtherFlow, f.cfg.Name)
	}
	switch {
	case p.Schema == f.cfg.Schema:
		if json.Unmarshal(p.State, &s) != nil {
			return s, p, fmt.Errorf("%w: its state has schema %d, but cannot be read as %T", ErrRelease, p.Schema, s)
		}
	case f.cfg.Upgrade == nil:
		err = fmt.Errorf("%w: its state has schema %d, not %d, and there is no Upgrade", ErrRelease, p.Schema, f.cfg.Schema)
	default:
		if s, err = f.cfg.Upgrade(p.Schema, p.State); err != nil {
			err = fmt.Errorf("%w: its state has schema %d, not %d: %w", ErrRelease, p.Schema, f.cfg.Schema, err)
		}
	}
	return s, p, err
}

// at is the phase that a recovery point names; len(f.phases) after the last.
func (f *Flow[S]) at(point string) (int, error) {
	if i, ok := f.points[point]; ok {
		return i, nil
	}
	return 0, fmt.Errorf("%w: no phase of flow %[3]q is or was called %[2]q", ErrRelease, point, f.cfg.Name)
}

// calls is the foreign phase that a recovery point names; nil where it names a local one, or the
// end.
func (f *Flow[S]) calls(point string) (*Phase[S], error) {
	i, err := f.at(point)
	if err != nil || i == len(f.phases) || f.phases[i].foreign == nil {
		return nil, err
	}
	return &f.phases[i], nil
}

// Knows reports whether this release of the flow can go on with a record that was left at a
// recovery point. A guard of package stethttp asks it before it takes such a record over for a
// handler that calls [Flow.Run]: give it as Continue in the guard's Config. Without it the record
// of a release that this one does not know is taken over, and given up again.
func (f *Flow[S]) Knows(r *stet.Record) bool { return f.knows(r) == nil }

// knows returns an error if this release cannot go on with the record: it cannot read its state, or
// has no phase for its recovery point.
func (f *Flow[S]) knows(rec *stet.Record) error {
	if _, _, err := f.decode(rec.Body); err != nil {
		return err
	}
	_, err := f.at(rec.Point)
	return err
}

// over says which phases do not run any more, for a record at a point: those that its runs came to
// before, which are facts, and those that this release has before the point. Of the latter, those
// that were to come in the release that wrote the record still do.
func (f *Flow[S]) over(point string, p *progress) []bool {
	over := make([]bool, len(f.phases))
	here := f.points[point]
	for i := range over {
		over[i] = i < here
	}
	for _, name := range p.Left {
		if i, known := f.points[name]; known && i < len(over) {
			over[i] = false
		}
	}
	for _, through := range p.Points {
		if i, known := f.points[through.Name]; known && i < len(over) {
			over[i] = i != here
		}
	}
	return over
}

// next is the first phase that is not over; len(f.phases) if all are.
func (f *Flow[S]) next(over []bool) int {
	if i := slices.Index(over, false); i >= 0 {
		return i
	}
	return len(over)
}

// left names the phases that are not over and come after phase i.
func (f *Flow[S]) left(over []bool, i int) (names []string) {
	for j := range over {
		if !over[j] && j != i {
			names = append(names, f.phases[j].name)
		}
	}
	return names
}

// step is what is left behind of a record whose flow goes on at point. id is that of the effect
// that it had last.
func (f *Flow[S]) step(h *stet.Head, point, id string, s *S, left progress) (stet.Step, error) {
	b, err := f.encode(s, left)
	out := stet.Step{Point: point, Progress: b, DownstreamID: id}
	if p, _ := f.calls(point); p != nil {
		out.DownstreamKey = downstream(h, point)
	}
	return out, err
}

// point is the name under which phase i is entered today.
func (f *Flow[S]) point(i int) string {
	if i == len(f.phases) {
		return done
	}
	return f.phases[i].name
}

// downstream derives the key of the phase at point from the record's name and life. It does not
// reveal the client's key.
func downstream(h *stet.Head, point string) string {
	return digest.Phase(string(h.Scope), string(h.Key), point, h.CreatedAt.UnixMicro())
}
