package linear

import (
	"fmt"
	"math"
	"strings"

	"github.com/anishathalye/porcupine"
)

// verb is what a client, or the wire, did to a key.
type verb string

const (
	begin   verb = "begin"
	settle  verb = "settle"  // by the owner that In.owner names
	resolve verb = "resolve" // by an operator; or by a notice about the execution of In.owner
	returns verb = "returns" // a handler whose time was over, without an outcome
	tells   verb = "tells"   // the engine, some time after it was settled or told so: an execution that was given up had its effect
	purge   verb = "purge"
	get     verb = "get"
	forget  verb = "forget" // by the engine, of a begin that had no answer
	landed  verb = "landed" // a copy of a begin's write, on a record that was gone
)

// input of an operation. id is its own; owner is the begin that it speaks of.
type input struct {
	verb  verb
	key   int
	id    int
	owner int
	as    phase  // settle, resolve: what it is to become
	body  string // of done
	works bool   // settle as unknown: the handler has not returned; resolve as open: it need not have returned
}

// earlier is the owner of what a person said of the execution that they had read of, and that was
// not the record's any more, whichever it was.
const earlier = math.MinInt

// word is how an operation was answered.
type word string

const (
	execute    word = "execute"
	inProgress word = "in-progress"
	replay     word = "replay"
	unresolved word = "unresolved"
	ok         word = "ok"
	fenced     word = "fenced"
	refused    word = "refused" // by the record's state
	doubted    word = "doubted" // it is unknown, and what is said is not believed
	another    word = "another" // it is about another execution
	absent     word = "absent"
	shown      word = "shown"
	failed     word = "failed" // it may have happened, now or later
)

type output struct {
	word  word
	fence int64
	phase phase
	body  string
	again bool // it was sent more than once
}

// phase is where a key's record is. A key without a record, one that may be retried and one whose
// retention is over are the same for who asks: open.
type phase string

const (
	open    phase = "open"
	running phase = "running"
	unknown phase = "unknown"
	done    phase = "done"
)

// state of one key.
type state struct {
	phase phase
	owner int    // the begin that the claim was granted to
	about int    // the begin of the execution that the record is about
	freed string // the begins whose claims were ended as open by an operator, each between commas
	works bool   // unknown: the handler has not returned
	fence int64  // the highest that was handed out
	body  string
}

// step is what a key does that only ever does one thing at a time: all states that may follow,
// none where the answer is wrong.
func step(s state, in input, out output) []state {
	switch {
	case out.word == failed:
		return append([]state{s}, effects(s, in)...)
	case out.again && out.word != ok: // it may have happened, and another may have gone on from there, before it was sent again
		out.again = false
		return append(step(s, in, out), effects(s, in)...)
	}
	yes := func(is bool, next ...state) []state {
		if !is {
			return nil
		}
		return next
	}
	own := s.owner == in.owner && (s.phase == running || s.phase == unknown)
	switch {
	case in.verb == begin && out.word == execute:
		return yes(s.phase == open && out.fence > s.fence, state{phase: running, owner: in.id, about: in.id, freed: s.freed, fence: out.fence})
	case in.verb == begin && out.word == inProgress:
		return yes(s.phase == running, s)
	case in.verb == begin && out.word == replay:
		return yes(s.phase == done && s.body == out.body, s)
	case in.verb == begin && out.word == unresolved:
		return yes(s.phase == unknown, s)
	case in.verb == settle && out.word == fenced && in.as == unknown && s.phase == unknown: // its own engine may have written it meanwhile
		return []state{s}
	case in.verb == settle && out.word == fenced:
		return yes(!own, append([]state{s}, contradicted(s, in)...)...)
	case in.verb == settle && out.word == ok:
		return effects(s, in)
	case in.verb == resolve && out.word == doubted:
		return yes(s.phase == unknown && in.isAbout(s), s)
	case in.verb == resolve && out.word == another && in.owner == earlier:
		return yes(s.phase == open, s) // it was, after it was read: the next has begun
	case in.verb == resolve && out.word == another:
		return yes(!in.isAbout(s) || s.phase == open, s)
	case in.verb == resolve && out.word == ok && in.as == open:
		return yes(in.isAbout(s) && (!s.works || in.works), effects(s, in)...) // no proof while it works (I14)
	case in.verb == resolve && out.word == refused:
		return yes(s.phase != unknown, s)
	case in.verb == purge && out.word == refused:
		return yes(s.phase == running || s.phase == unknown, s)
	case out.word == absent:
		return yes(s.phase == open, s)
	case in.verb == resolve && out.word == ok, in.verb == purge && out.word == ok, in.verb == landed:
		return effects(s, in)
	case in.verb == get:
		return yes(s.phase == out.phase && (s.phase != done || s.body == out.body), s)
	}
	panic(fmt.Sprintf("%+v was answered %+v", in, out))
}

// effects is what an operation does where it can; nothing: it cannot.
func effects(s state, in input) []state {
	next := s
	switch in.verb {
	case begin:
		if s.phase == open {
			next.phase, next.owner, next.about = running, in.id, in.id // taken back, it is as it was
			return []state{next}
		}
	case landed:
		if s.phase == open {
			next.phase, next.owner, next.about = running, in.owner, in.owner
			return []state{next}
		}
	case forget:
		if s.phase == running && s.owner == in.owner {
			next.phase, next.owner = open, 0
			return []state{next}
		}
	case settle:
		if s.owner == in.owner && (s.phase == running || s.phase == unknown) {
			return []state{ended(s, in)}
		}
		return contradicted(s, in)
	case tells:
		return contradicted(s, in)
	case returns:
		if s.phase == unknown && s.about == in.owner {
			next.works = false
			return []state{next}
		}
	case resolve:
		if s.phase == unknown && in.isAbout(s) {
			return []state{ended(s, in)}
		}
	case purge:
		if s.phase == open || s.phase == done {
			next.phase, next.owner, next.about, next.body = open, 0, 0, ""
			return []state{next}
		}
	case get:
	}
	return nil
}

func ended(s state, in input) state {
	s.phase, s.body, s.works = in.as, in.body, in.verb == settle && in.as == unknown && in.works
	if in.as != unknown {
		s.owner = 0
	}
	if freed := fmt.Sprintf(",%d,", s.about); in.verb == resolve && in.as == open && !strings.Contains(s.freed, freed) {
		s.freed += freed
	}
	return s
}

// contradicted is a key that was freed, and whose handler comes back with an answer; or of which a
// notice says that an execution before had its effect. It is free no longer; and what is in doubt
// since is so still, works if it did, and takes no result from its own holder any more (K01).
func contradicted(s state, in input) []state {
	freed := in.verb == tells || strings.Contains(s.freed, fmt.Sprintf(",%d,", in.owner))
	if in.as != done || !freed || s.phase != open && (s.phase != unknown || s.about == in.owner) {
		return nil
	}
	s.phase, s.owner = unknown, 0
	return []state{s}
}

// isAbout reports whether the record is about the execution that a statement names, if it does.
func (in input) isAbout(s state) bool { return in.owner == 0 || s.about == in.owner }

var model = func() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{phase: open}} },
		Step: func(s, in, out any) (next []any) {
			for _, n := range step(s.(state), in.(input), out.(output)) {
				next = append(next, n)
			}
			return next
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v %+v", in, out) },
		// Keys have nothing to do with each other. A check of all at once would not end.
		Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
			parts = make([][]porcupine.Operation, keys)
			for _, op := range history {
				k := op.Input.(input).key
				parts[k] = append(parts[k], op)
			}
			return parts
		},
	}
	return m.ToModel()
}()
