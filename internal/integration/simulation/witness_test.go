package simulation

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/stet-dev/stet"
)

// witness looks at one change of one record, which by made: was is what the write found, is what it
// left. Either is nil where there is none. It is called with w.mu held.
func (w *world) witness(by *host, was, is *stet.Record) {
	switch {
	case was == nil && is == nil, was != nil && is != nil && was.Version == is.Version: // nothing was written
		return
	case is == nil:
		w.removed(was)
		return
	}
	if is.Note != nil {
		w.notes++
	}
	if is.State == stet.Running && (was == nil || was.Fence() != is.Fence()) {
		w.begun = is.Version
	}
	w.noteAnswers(is)
	if was != nil {
		w.about(was, is)
	}
	switch {
	case is.State == stet.Running && is.Point != string(is.Progress): // a step's point and its progress are the same here
		w.t.Error("W2: a recovery point has the progress of another")
	case is.DueAt.IsZero() && !(is.State == stet.Unknown && is.Escalated):
		w.t.Errorf("I15: a record is %v, and nobody will ever look after it", is.State)
	case tombstone(is) && (was == nil || !was.CreatedAt.Equal(is.CreatedAt)):
		w.givenUp(was)
	case was != nil && was.State == stet.Running && w.granted(&was.Head) == nil && is.CreatedAt.Before(was.CreatedAt):
		w.relived(by, was, is)
	case was == nil || !was.CreatedAt.Equal(is.CreatedAt):
		if live := was != nil && (was.State == stet.Running || was.State == stet.Unknown || !was.Over()); live || is.State != stet.Running || is.Attempt != 1 {
			w.t.Errorf("I10: a life began as %v, attempt %d, while another went on: %v", is.State, is.Attempt, live)
		}
	case was.Fingerprint != is.Fingerprint:
		w.t.Errorf("I9: a %v record is another request's now, as %v", was.State, is.State)
	default:
		w.moved(by, was, is)
	}
}

// tombstone reports whether r is what a request leaves that gave up.
func tombstone(r *stet.Record) bool {
	return r.State == stet.Retryable && r.Cause == stet.CauseGivenUp && r.Over() && r.Response == nil
}

// givenUp: a tombstone takes the place of a reservation that is given up.
func (w *world) givenUp(was *stet.Record) { // A14
	switch {
	case was == nil, was.State != stet.Running && was.State != stet.Unknown && was.Over():
	case was.State == stet.Running && w.granted(&was.Head) == nil:
	default:
		w.t.Errorf("I10: a request that gave up has ended what was %v", was.State)
	}
}

// relived: the record was gone when a copy of its first write came, and now there is a copy of a
// later one. What it says was true of that life, and nothing runs because of it.
func (w *world) relived(by *host, was, is *stet.Record) { // A14, I2
	i := slices.IndexFunc(w.runs, func(r *run) bool { return r.id == is.ID && r.life.Equal(is.CreatedAt) && r.host == by })
	if i < 0 {
		w.t.Errorf("I10: a %v record is of a life that this process had no part in", is.State)
		return
	}
	switch is.State {
	case stet.Running, stet.Unknown:
	case stet.Retryable:
		w.released(was, is)
	case stet.Completed:
		w.happened(is, is.Response != nil && string(is.Response.Body) == w.runs[i].answer)
	case stet.Expired:
		w.t.Error("I10: what began again is over")
	}
}

// removed: nothing that is alive is gone, and nothing that was to stay refused.
func (w *world) removed(was *stet.Record) { // I10, W17, W18, W19
	switch {
	case was.State == stet.Running && w.granted(&was.Head) == nil: // by who gave up before anything ran
	case was.State == stet.Running, was.State == stet.Unknown, !was.Over(),
		was.State == stet.Completed && was.AsOf.Before(was.DueAt.Add(was.Rules.KeepExpired)):
		w.t.Errorf("I10: a record that was %v is gone", was.State)
	}
}

// moved is a change within one life.
func (w *world) moved(by *host, was, is *stet.Record) {
	switch was.State {
	case stet.Running:
		w.ran(by, was, is)
	case stet.Unknown:
		w.doubted(by, was, is)
	case stet.Completed:
		purged, expired := is.State == stet.Expired && is.Note != nil, is.State == stet.Expired && was.Over()
		same := is.State == stet.Completed && is.Status == was.Status && reflect.DeepEqual(was.Response, is.Response)
		if !purged && !expired && !same { // extended, or written once more by a holder who was not heard
			w.t.Errorf("I3: what was completed is %v", is.State)
		}
	case stet.Retryable:
		contradicted := is.State == stet.Unknown && (is.Cause == "contradicted" || w.doubled(by, is)) && is.Note != nil && is.Attempt == was.Attempt
		if is.State != stet.Expired && is.State != stet.Retryable && (is.State != stet.Running || is.Attempt != was.Attempt+1) && !contradicted {
			w.t.Errorf("I3: what may be retried is %v", is.State)
		}
	case stet.Expired:
		if is.State != stet.Expired {
			w.t.Errorf("W19: what is over is %v", is.State)
		}
	}
}

// ran: what becomes of a run, by who holds it, by who gave up before it ran, and by others only
// when its lease is over.
func (w *world) ran(by *host, was, is *stet.Record) { // I1, I3, I13
	holder := w.granted(&was.Head)
	held := holder == nil || holder.host == by
	switch is.State {
	case stet.Running:
		if is.Attempt > was.Attempt {
			w.taken(was, is)
		} else if was.Over() && is.Over() && is.Attempt == was.Attempt { // who gave up to take it over fences off copies of that
			break
		} else if !held || holder != nil && is.Attempt != was.Attempt { // what a heartbeat and a recovery point leave alone
			w.t.Error("I3: a run was renewed by who does not hold it")
		}
	case stet.Unknown:
		if lapse := is.Cause == "lease-lapsed" || is.Cause == "not-resumed"; lapse && !was.Over() || !lapse && !held {
			w.t.Error("I13: a run was given up while its lease was not over by the store's clock")
		}
	case stet.Retryable:
		if is.Note == nil && !held || is.Note != nil && !was.Over() {
			w.t.Error("I3: a run was released by who does not hold it")
		}
		w.released(was, is)
	case stet.Completed:
		byHolder := holder != nil && held && is.Response != nil && string(is.Response.Body) == holder.answer
		if is.Note == nil && !byHolder || is.Note != nil && !was.Over() {
			w.t.Error("I3: a run was completed by who does not hold it")
		}
		w.happened(is, byHolder)
	case stet.Expired:
		if was.Rules.OnLapse != stet.LapseReexecute || was.AsOf.Before(was.DueAt.Add(was.Rules.Retain)) || is.Note != nil {
			w.t.Error("I10: a running record expired")
		}
	}
}

// taken: one engine goes on with what another has begun.
func (w *world) taken(was, is *stet.Record) { // I1
	rule := was.Rules.OnLapse == stet.LapseReexecute || was.Rules.OnLapse == stet.LapseResume && was.Point != ""
	if published := w.published(is.ID, is.CreatedAt); !was.Over() || !rule || published {
		w.t.Errorf("I1: a run was taken over: over %v, allowed %v, published %v", was.Over(), rule, published)
	}
	w.risked[is.CreatedAt] = true
	if holder := w.granted(&was.Head); holder != nil {
		holder.left = true
	}
}

// doubted: what is unknown stays so until it is resolved, with evidence.
func (w *world) doubted(by *host, was, is *stet.Record) { // I6, I14, I16; W20, W21
	holder := w.granted(&was.Head)
	lapsed := was.Cause == "lease-lapsed" || was.Cause == "not-resumed"
	// It knows best if its client has its answer, or no other has said that the outcome is unknown.
	late := holder != nil && holder.host == by && is.Note == nil && (holder.handed || holder.doubted && !lapsed)
	override := is.Note != nil && is.Note.Who == blind
	switch is.State {
	case stet.Unknown:
		if is.Attempt != was.Attempt || !bytes.Equal(is.Progress, was.Progress) || is.Published != was.Published {
			w.t.Error("I6: what is unknown was changed, and is unknown still")
		}
		w.attested(by, holder, was, is)
		return
	case stet.Retryable:
		if was.Response != nil && !override {
			w.t.Error("K02: a key was freed against the answer of its handler")
		}
		w.released(was, is)
	case stet.Completed:
		if was.Response != nil && !override {
			w.seen.adopted++
			if !reflect.DeepEqual(was.Response, is.Response) && is.Kept != stet.KeptStatus || was.Status != is.Status {
				w.t.Errorf("K02: the handler's answer was held, and the result is another: %d with %d bytes", is.Status, is.Size)
			}
		}
		w.happened(is, late && is.Response != nil && string(is.Response.Body) == holder.answer)
	case stet.Running, stet.Expired:
		w.t.Errorf("I6: what is unknown is %v", is.State)
	}
	if !late && (is.Note == nil || is.Note.Who == "" || is.Note.Why == "" || is.Note.Evidence == "") {
		w.t.Errorf("I6, I16: what was unknown is %v, and nobody said why", is.State)
	}
}

// attested: what is unknown may hold an answer of its own run, and says until when that works. Only
// the process of that run knows either (K01, K05).
func (w *world) attested(by *host, holder *run, was, is *stet.Record) {
	own := holder != nil && holder.host == by
	switch {
	case w.doubled(by, is):
	case is.Took != was.Took && (!own || !holder.spoken):
		w.t.Error("K01: it was said when the run of another ended")
	case !reflect.DeepEqual(was.Response, is.Response) && (!own || is.Response == nil || string(is.Response.Body) != holder.answer):
		w.t.Error("K01: an unknown record holds the answer of another run")
	}
}

// doubled reports whether a process says of a record that an earlier execution has had its effect
// after all, and one of its own has.
func (w *world) doubled(by *host, is *stet.Record) bool {
	return is.Cause == stet.CauseDoubleEffect && is.Note != nil && slices.ContainsFunc(w.runs, func(r *run) bool {
		own := saidBy(is.Note, who) || saidBy(is.Note, by.name) && r.host == by && r.answer != ""
		return r.id == is.ID && r.fence < is.Fence() && own
	})
}

// saidBy reports whether the proof of a double effect came from a process, or from a person.
func saidBy(n *stet.Note, name string) bool {
	return strings.Contains(n.Evidence+":", ", says "+name+":")
}

// blind is who frees keys against what speaks against it.
const blind = "bob"

// noteAnswers takes down which runs' answers have come into a record.
func (w *world) noteAnswers(is *stet.Record) {
	for _, r := range w.runs {
		if r.id == is.ID {
			r.placed = r.placed || r.answer != "" && is.Response != nil && string(is.Response.Body) == r.answer
			twice := is.Note != nil && is.Note.Action == stet.CauseDoubleEffect && saidBy(is.Note, r.host.name) &&
				strings.HasPrefix(is.Note.Evidence, fmt.Sprintf("attempt %d was answered", r.fence-r.life.UnixMicro()))
			r.ruled = r.ruled || is.State == stet.Completed && is.Fence() == r.fence || twice
		}
	}
}

// released: a retry may run. Then nothing has happened, and nothing can any more.
func (w *world) released(was, is *stet.Record) { // I1, I14
	if is.Note != nil && is.Note.Who == blind {
		w.risked[is.CreatedAt] = true
		return
	}
	done, open := w.effects(is.ID, is.CreatedAt, nil)
	if published := w.published(is.ID, is.CreatedAt); len(done) > 0 || open || published {
		w.t.Errorf("I14: a %v record was released: effects %d, one may still come %v, published %v", was.State, len(done), open, published)
	}
}

// happened: a result stands, which is the holder's, or that of an effect there is.
func (w *world) happened(is *stet.Record, byHolder bool) { // I2, I14
	if done, _ := w.effects(is.ID, is.CreatedAt, nil); !byHolder && len(done) == 0 {
		w.t.Error("I14: a result was found of what did not happen")
	}
	if is.DueAt.Before(is.CompletedAt.Add(retain)) {
		w.t.Error("W19: a result is kept for less long than it was to be")
	}
}
