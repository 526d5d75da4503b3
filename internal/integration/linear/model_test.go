package linear

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// verb is what a client, or the wire, did to a key.
type verb string

const (
	begin   verb = "begin"
	settle  verb = "settle"  // by the owner that In.owner names
	resolve verb = "resolve" // by an operator
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
}

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
	owner int   // the begin that the claim was granted to
	freed int   // the begin whose claim was ended as open by an operator, and nothing has begun since
	fence int64 // the highest that was handed out
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
		return yes(s.phase == open && out.fence > s.fence, state{phase: running, owner: in.id, fence: out.fence})
	case in.verb == begin && out.word == inProgress:
		return yes(s.phase == running, s)
	case in.verb == begin && out.word == replay:
		return yes(s.phase == done && s.body == out.body, s)
	case in.verb == begin && out.word == unresolved:
		return yes(s.phase == unknown, s)
	case in.verb == settle && out.word == fenced:
		return yes(!own, append([]state{s}, contradicted(s, in)...)...)
	case in.verb == settle && out.word == ok:
		return effects(s, in)
	case in.verb == resolve && out.word == doubted:
		return yes(s.phase == unknown, s)
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
			next.phase, next.owner = running, in.id // taken back, it is as it was
			return []state{next}
		}
	case landed:
		if s.phase == open {
			next.phase, next.owner, next.freed = running, in.owner, 0
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
	case resolve:
		if s.phase == unknown {
			return []state{ended(s, in)}
		}
	case purge:
		if s.phase == open || s.phase == done {
			next.phase, next.owner, next.freed, next.body = open, 0, 0, ""
			return []state{next}
		}
	case get:
	}
	return nil
}

func ended(s state, in input) state {
	was := s.owner
	s.phase, s.body = in.as, in.body
	if in.as != unknown {
		s.owner, s.freed = 0, 0
	}
	if in.verb == resolve && in.as == open {
		s.freed = was
	}
	return s
}

// contradicted is a key that was freed, and whose handler comes back with an answer before anything
// else has begun.
func contradicted(s state, in input) []state {
	if s.phase != open || s.freed != in.owner || in.as != done {
		return nil
	}
	s.phase, s.owner, s.freed = unknown, 0, 0
	return []state{s}
}

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
