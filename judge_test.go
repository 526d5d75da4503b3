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

// statesTables are the tables of docs/states.md, by their names. Rows that agree in everything but
// a column that does not matter are one.
func statesTables() map[string]string {
	var rulings, resumes strings.Builder
	rulings.WriteString("| record | due | its rules | same request | another request |\n|---|---|---|---|---|\n")
	for s := Running; s <= Expired; s++ {
		for _, row := range rowsOf(s) {
			fmt.Fprintf(&rulings, "| %s | %s | %s | %s | %s |\n", s, row.due, row.rules, row.same, row.other)
		}
	}
	resumes.WriteString("| its rules | a request | a completer | the sweeper | evidence may be about |\n|---|---|---|---|---|\n")
	for _, row := range resumeRows() {
		fmt.Fprintf(&resumes, "| %s | %s | %s | %s | %s |\n", row[0], row[1], row[2], row[3], row[4])
	}
	return map[string]string{"judge": rulings.String(), "lapse": resumes.String(), "evidence": evidenceTable()}
}

// resumeRows say what happens to a run whose lease or pause is over. Every column asks the code
// that decides it.
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
		{"any, and part of an answer has been sent", situation{onLapse: LapseResume, point: true, published: true}},
	} {
		v.x.state, v.x.due = Running, "just over"
		h := v.x.head()
		h.Rules.Retain = keepFor
		request, sweeper, completer, operator := "makes it unknown", "makes it unknown", "skips it", "the whole run"
		if judge(&h, true).move == take {
			request = "continues it"
		}
		soon, ends := ending(&h)
		h.AsOf = h.DueAt.Add(h.Rules.Retain)
		late, _ := ending(&h)
		switch {
		case !ends:
			sweeper = "leaves it for as long as a result is kept, then makes it " + late.State.String()
		case soon.State != Unknown:
			sweeper = "makes it " + soon.State.String()
		}
		if resumable(&h) {
			completer = "continues it"
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
			{"lease " + over, "any, and part of an answer has been sent", situation{due: "just over", onLapse: LapseReexecute, point: true, published: true}},
		}
	case Completed:
		variants = []variant{
			{"retention " + live, "any", situation{due: "live"}},
			{"retention " + over, "expired keys are free (the default)", situation{due: "just over"}},
			{"retention " + over, "expired keys are refused", situation{due: "kept", keep: true}},
			{"refusal " + over, "expired keys are refused", situation{due: "long over", keep: true}},
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

// The tables of docs/states.md are what judge and the loops decide; the text around them is written
// by hand.
func TestStatesDoc(t *testing.T) {
	const path = "docs/states.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(page)
	for name, table := range statesTables() {
		begin, end := "<!-- table "+name+", written by TestStatesDoc -->\n", "<!-- end of "+name+" -->"
		before, rest, found := strings.Cut(want, begin)
		_, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("%s has no place for the table %s: %s…%s", path, name, begin, end)
		}
		want = before + begin + table + end + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Fatalf("%s is not what judge says: go test . -run TestStatesDoc -update", path)
	}
}
