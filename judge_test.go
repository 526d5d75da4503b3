package stet

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/states.md anew")

// situation is a row of the rulebook: all that judge looks at.
type situation struct {
	state     State
	due       string // live, just over, kept, long over, none
	same      bool
	point     bool
	published bool
	onLapse   LapseRule
	keep      bool // the record's Rules keep expired keys refused
}

const keepFor = time.Hour

// situations enumerates every row.
func situations() (all []situation) {
	for s := Running; s <= Expired; s++ {
		for _, due := range []string{"live", "just over", "kept", "long over", "none"} {
			for bits := range 16 {
				for rule := LapseUnknown; rule.Valid(); rule++ {
					all = append(all, situation{s, due, bits&1 > 0, bits&2 > 0, bits&4 > 0, rule, bits&8 > 0})
				}
			}
		}
	}
	return all
}

func (x situation) head() Head {
	h := Head{State: x.state, Published: x.published, Rules: Rules{OnLapse: x.onLapse}, AsOf: time.UnixMicro(1e15)}
	if x.point {
		h.Point = "charged"
	}
	if x.keep {
		h.Rules.KeepExpired = keepFor
	}
	switch x.due {
	case "live":
		h.DueAt = h.AsOf.Add(time.Microsecond)
	case "just over": // the instant itself is over
		h.DueAt = h.AsOf
	case "kept":
		h.DueAt = h.AsOf.Add(time.Microsecond - keepFor)
	case "long over":
		h.DueAt = h.AsOf.Add(-keepFor)
	}
	return h
}

// rulebook states the rules once more, as sentences in the order in which they apply.
func (x situation) rulebook() ruling {
	over := x.due != "live" && x.due != "none"
	ended := x.state == Completed || x.state == Retryable
	stillKept := x.due == "just over" || x.due == "kept"
	again := !x.published && (x.onLapse == LapseReexecute || x.onLapse == LapseAtomic || x.onLapse == LapseResume && x.point)
	for _, rule := range []struct {
		when bool
		then ruling
	}{
		{x.state == Completed && over && x.keep && stillKept, ruling{Gone, stay}},
		{ended && over, ruling{Execute, restart}},
		{x.state == Expired && over, ruling{Execute, restart}},
		{x.state == Expired, ruling{Gone, stay}},
		{!x.same, ruling{Mismatch, stay}},
		{x.state == Completed, ruling{Replay, stay}},
		{x.state == Retryable, ruling{Execute, take}},
		{x.state == Unknown, ruling{Unresolved, stay}},
		{x.state == Running && !over, ruling{InProgress, stay}},
		{x.state == Running && again, ruling{Execute, take}},
		{x.state == Running, ruling{Unresolved, lapse}},
	} {
		if rule.when {
			return rule.then
		}
	}
	panic("no rule")
}

func TestJudge(t *testing.T) { // I1, I9, I10: every row
	rows := situations()
	for _, x := range rows {
		h := x.head()
		if got, want := judge(&h, x.same), x.rulebook(); got != want {
			t.Errorf("%+v: %v %v, want %v %v", x, got.Verdict, got.move, want.Verdict, want.move)
		}
	}
	if len(rows) != 5*5*16*4 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestJudgeRefusesUnknownStates(t *testing.T) { // W24
	for _, s := range []State{0, Expired + 1, 255} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a record in state %d was judged", s)
				}
			}()
			judge(&Head{State: s}, true)
		}()
	}
}

// statesDoc writes the table of rulings: rows that agree in everything but a column that does not matter are one.
func statesDoc() string {
	var b strings.Builder
	b.WriteString(statesIntro)
	b.WriteString("| record | due | its rules | same request | another request |\n|---|---|---|---|---|\n")
	for s := Running; s <= Expired; s++ {
		for _, row := range rowsOf(s) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", s, row.due, row.rules, row.same, row.other)
		}
	}
	b.WriteString(statesResume)
	for _, row := range resumeRows() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", row[0], row[1], row[2], row[3], row[4])
	}
	b.WriteString(statesOutro)
	return b.String()
}

// resumeRows are what anybody does with a run whose lease or pause is over. All of them ask judge or mayRunAgain.
func resumeRows() (rows [][5]string) {
	for _, v := range []struct {
		rules string
		x     situation
	}{
		{"`unknown` (the default)", situation{point: true}},
		{"`resume`, no recovery point", situation{onLapse: LapseResume}},
		{"`resume`, with a recovery point", situation{onLapse: LapseResume, point: true}},
		{"`reexecute`", situation{onLapse: LapseReexecute}},
		{"`atomic`", situation{onLapse: LapseAtomic}},
		{"any, and bytes of an answer have left", situation{onLapse: LapseResume, point: true, published: true}},
	} {
		v.x.state, v.x.due = Running, "just over"
		h := v.x.head()
		h.Rules.Retain = keepFor
		request, sweeper, completer, operator := "makes it unknown", "makes it unknown", "passes it over", "whole run only"
		if judge(&h, true).move == take {
			request = "goes on with it"
		}
		soon, ends := ending(&h)
		h.AsOf = h.DueAt.Add(h.Rules.Retain)
		late, _ := ending(&h)
		switch {
		case !ends:
			sweeper = "leaves it for as long as a result is kept, and makes it " + late.State.String() + " then"
		case soon.State != Unknown:
			sweeper = "makes it " + soon.State.String()
		}
		if resumable(&h) {
			completer = "goes on with it"
		}
		if h.Point = "charged"; mayResume(&h) { // evidence brings the point
			operator = "one phase, or the whole run"
		}
		rows = append(rows, [5]string{v.rules, request, completer, sweeper, operator})
	}
	return rows
}

type docRow struct{ due, rules, same, other string }

// rowsOf groups the situations of a state by what is ruled.
func rowsOf(s State) (rows []docRow) {
	type variant struct {
		due, rules string
		x          situation
	}
	var variants []variant
	live, over := "not over", "over" // of a lease or a pause, which judge cannot tell apart, and need not
	switch s {
	case Running:
		variants = []variant{
			{"lease, or pause of a suspended run, " + live, "any", situation{due: "live"}},
			{"lease " + over, "`unknown` (the default)", situation{due: "just over"}},
			{"lease " + over, "`resume`, no recovery point", situation{due: "just over", onLapse: LapseResume}},
			{"lease " + over, "`resume`, with a recovery point (suspended or not)", situation{due: "just over", onLapse: LapseResume, point: true}},
			{"lease " + over, "`reexecute`", situation{due: "just over", onLapse: LapseReexecute}},
			{"lease " + over, "`atomic`: this write proves that nothing happened", situation{due: "just over", onLapse: LapseAtomic}},
			{"lease " + over, "any, and bytes of an answer have left", situation{due: "just over", onLapse: LapseReexecute, point: true, published: true}},
		}
	case Completed:
		variants = []variant{
			{"retention " + live, "any", situation{due: "live"}},
			{"retention " + over, "expired keys are free (the default)", situation{due: "just over"}},
			{"retention " + over, "expired keys are refused", situation{due: "kept", keep: true}},
			{"that is over, too", "expired keys are refused", situation{due: "long over", keep: true}},
		}
	case Retryable:
		variants = []variant{{"retention " + live, "any", situation{due: "live"}}, {"retention " + over, "any", situation{due: "just over", keep: true}}}
	case Unknown:
		variants = []variant{{"any", "any", situation{due: "long over", onLapse: LapseReexecute, point: true, keep: true}}}
	case Expired:
		variants = []variant{{"refusal " + live, "any", situation{due: "live"}}, {"refusal " + over, "any", situation{due: "long over"}}}
	}
	for _, v := range variants {
		v.x.state = s
		h := v.x.head()
		rows = append(rows, docRow{v.due, v.rules, phrase(judge(&h, true)), phrase(judge(&h, false))})
	}
	return rows
}

func phrase(r ruling) string {
	return map[ruling]string{
		{Execute, take}:     "**runs**; the record is running again, attempt + 1",
		{Execute, restart}:  "**runs**; a new life begins",
		{Replay, stay}:      "replay",
		{InProgress, stay}:  "409 in-progress, or waits",
		{Mismatch, stay}:    "422 key-reused",
		{Unresolved, stay}:  "409 outcome-unknown",
		{Unresolved, lapse}: "409 outcome-unknown; the record becomes unknown",
		{Gone, stay}:        "422 expired-key",
	}[r]
}

const statesIntro = `<!-- Written by TestStatesDoc from judge.go: go test . -run TestStatesDoc -update -->
# The life of a key

` + "```mermaid" + `
stateDiagram-v2
    [*] --> Running: first request (creates the record, holds the lease)
    Running --> Running: heartbeat, recovery point, suspended there
    Running --> Completed: the handler answered
    Running --> Retryable: proven that nothing happened
    Running --> Unknown: panic, timeout, lost answer, lease over
    Running --> Retryable: lease over, and the run was one transaction that was not committed
    Running --> Expired: lease over, may be run again, and was not for as long as a result is kept
    Running --> Running: lease or pause over, gone on with
    Retryable --> Running: one retry with the same request
    Unknown --> Completed: evidence that it happened
    Unknown --> Retryable: evidence that it did not
    Unknown --> Running: evidence about one phase, the run goes on
    Unknown --> Unknown: a probe, a result that came too late, the handler has not returned yet
    Retryable --> Unknown: the handler came back with an answer, against the evidence
    [*] --> Retryable: a request that gave up leaves a tombstone, which is over at once
    Completed --> Expired: retention over, keys stay refused
    Completed --> [*]: retention over
    Retryable --> [*]: retention over
    Expired --> [*]: over
` + "```" + `

Running and Unknown never end by retention. The record carries the rules it was made under; a changed configuration holds for
new records. Times are compared by the store's clock, and an instant that is reached is over. The fingerprint comes first: whoever
sends another request with a live key is told so, whatever the state.

## What a request is told

This table is the function ` + "`judge`" + `, all of it.

`

const statesResume = `
## Recovery points

A run that takes several steps (package flow) leaves a **recovery point** after each: the name of the phase that is next, and what
was learnt so far, in one write. It is how a record is gone on with that nobody works on any more. That comes about in two ways:

- *abandoned*: the process died, and the lease ran out. What the phase did since the point is in doubt: its call is made again only
  where the provider honours its key, or a lookup says that it was not made; otherwise the record becomes unknown.
- *suspended*: the run gave up by itself, and left a point and a pause (a provider that is down). It is still Running, held by nobody,
  and due when the pause is over; until then requests hear 409 in-progress with the time that is left, the first one included. Where
  nobody goes on with it for as long as its result would be kept, it becomes unknown, for people to look at.

When the lease or the pause is over, whoever comes first goes on, by compare-and-set: the client's retry, or a completer
(` + "`flow.Completer`" + `, ` + "`Operator.Resume`" + `). The run before is fenced off from then on.

| its rules | a request | a completer | the sweeper | evidence ends the doubt of |
|---|---|---|---|---|
`

const statesOutro = `
Unknown records go on, too, once somebody knows what became of the one call in doubt: ` + "`flow.Flow.Resolve`" + ` (a person),
` + "`Flow.Reconcile`" + ` (a reconciler, by the phase's lookup), both through ` + "`Operator.Reopen`" + `. The record is suspended then, after that phase or
at it, with no pause.

A holder that comes back with a result after all, when its lease is over and the record is unknown, changes nothing; its answer is
left with the record as evidence, and in the history. A reconciler that finds the effect gives retries that answer. Nothing that
says otherwise frees the key against it, be it a probe, a notice or an operator (who may override it, which is kept in the
history). Where the key was freed before, and no retry has run yet, it is unknown again.

Every statement about an unknown record may name what it speaks of, and a notice that says that nothing happened has to: the
attempt, or the fence, which also tells one life of a key from another. One about another attempt changes nothing. A notice
that comes again is known by its id, which is kept in the history, and changes nothing either. While the process knows that the
handler has not returned, nothing proves that nothing happened; settling time begins when it has, for probes and for people, who may
say that they will not wait (--now).

## Who writes

Who moves a record, besides requests: the holder of the claim (Completed, Retryable, Unknown), the sweeper (a lapsed Running
ends as the table above says), the reaper (what is over goes, or becomes Expired), and, for Unknown ones, a
reconciler or an operator with evidence (Completed, Retryable; Running where it is about one phase), and the completer (Running
again, as a request would). All of them write with the version they read: of two, one is too late. Every order of what they can do is searched for a broken promise by the model in internal/model.
`

func TestStatesDoc(t *testing.T) {
	const path = "docs/states.md"
	want := statesDoc()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Fatalf("%s is not what judge says (%v): go test . -run TestStatesDoc -update", path, err)
	}
}
