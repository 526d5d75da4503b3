package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stet-dev/stet/internal/age"
	"github.com/stet-dev/stet/operate"
)

// The words of the pages. The machine's words stay in the record.

// Cause is a cause in words.
func (p *page) Cause(word string, count int) string { return operate.CauseText(word, count) }

// Age says how long ago an instant is, in a sentence.
func (p *page) Age(t time.Time) string { return age.Long(p.Now.Sub(t)) }

// AgeShort says how long ago an instant is, in a table.
func (p *page) AgeShort(t time.Time) string { return age.Short(p.Now.Sub(t)) }

// In says how long it is until an instant, in a sentence.
func (p *page) In(t time.Time) string { return age.Long(t.Sub(p.Now)) }

// InShort says how long it is until an instant, in a table.
func (p *page) InShort(t time.Time) string {
	if !t.After(p.Now) {
		return "now"
	}
	return age.Short(t.Sub(p.Now))
}

// Future reports whether an instant is still to come.
func (p *page) Future(t time.Time) bool { return t.After(p.Now) }

// Clock is an instant in UTC, which the page says once.
func (p *page) Clock(t time.Time) string { return age.Clock(t, p.Now) }

// stamp is the machine's form of an instant.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// full is an instant to the millisecond, as the record shows it.
func full(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") }

// number groups the digits of n.
func number[N int | int64 | uint64](n N) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// first makes the beginning of a sentence of a clause.
func first(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + s[n:]
}

func sizeOf(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	return number(n) + " bytes"
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// one is the word for one thing, or that for several.
func one(n int, single, several string) string {
	if n == 1 {
		return single
	}
	return several
}

func percent(part, whole int) string {
	return trimmed(100*float64(part)/float64(max(whole, 1)), 2) + " %"
}

// milli is a duration in milliseconds, in a unit that fits.
func milli(ms float64) string {
	switch {
	case ms <= 0:
		return "?"
	case ms < 10:
		return trimmed(ms, 1) + " ms"
	case ms < 1000:
		return trimmed(ms, 0) + " ms"
	}
	return trimmed(ms/1000, 1) + " s"
}

// rate is a number a second, the smaller the more digits it has.
func rate(perSecond float64) string {
	switch {
	case perSecond >= 100:
		return number(int(perSecond))
	case perSecond >= 10:
		return trimmed(perSecond, 0)
	case perSecond >= 1:
		return trimmed(perSecond, 1)
	}
	return trimmed(perSecond, 2)
}

func trimmed(f float64, digits int) string {
	s := strconv.FormatFloat(f, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// mark is the shape, the word and the colour of a state: any two of them are enough.
type mark struct{ Icon, Class, Word string }

var marks = map[string]mark{
	"running":   {"running", "running", "running"},
	"completed": {"done", "done", "completed"},
	"failed":    {"failed", "failed", "failed"},
	"retryable": {"retry", "retry", "retryable"},
	"unknown":   {"unknown", "unknown", "unknown"},
	"dead":      {"dead", "dead", "dead letter"},
	"expired":   {"over", "over", "expired"},
}

func markOf(r *operate.Record) mark {
	if r.State == "unknown" && r.Escalated {
		return marks["dead"]
	}
	return marked(marks, r.State)
}

// marked is the mark of a word. One that is not known stands for itself.
func marked(all map[string]mark, word string) mark {
	return cmp.Or(all[word], mark{"over", "over", word})
}

// sorted are results with their numbers, by name.
func sorted(r operate.Results) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		all = append(all, name+" "+number(r[name]))
	}
	return all
}

// choice is an instant until which keys can be snoozed.
type choice struct{ Until, Label string }

// Quiet is until when keys can be snoozed. The last choice is nine in the morning.
func (p *page) Quiet() []choice {
	in := func(d time.Duration, word string) choice {
		t := p.Now.Add(d)
		return choice{t.Format(time.RFC3339), t.Format("15:04") + " (" + word + ")"}
	}
	morning := time.Date(p.Now.Year(), p.Now.Month(), p.Now.Day(), 9, 0, 0, 0, time.UTC)
	if !morning.After(p.Now) {
		morning = morning.AddDate(0, 0, 1)
	}
	return []choice{in(30*time.Minute, "30 min"), in(time.Hour, "1 h"), in(4*time.Hour, "4 h"),
		{morning.Format(time.RFC3339), morning.Format("Mon 15:04")}}
}

// Line is what an incident's row says of all its keys: first what their probes were answered.
func (p *page) Line(in operate.Incident) (all []string) {
	asked := 0
	for _, found := range [...]string{"happened", "goes-on", "pending", "voided", "silent", "missing"} {
		if n := in.Probes[found]; n > 0 {
			asked += n
			all = append(all, number(n)+" "+operate.FindingText(found))
		}
	}
	if rest := in.Count - asked; rest > 0 && len(in.Probes) > 0 {
		all = append(all, number(rest)+" not asked yet")
	}
	if in.Asking.Count > 0 {
		all = append(all, "clients asked "+plural(in.Asking.Count, "time", "times")+", last "+p.Age(in.Asking.LastAt)+" ago")
	}
	if in.Dead > 0 {
		all = append(all, plural(in.Dead, "dead letter", "dead letters"))
	}
	if in.Snoozed > 0 {
		all = append(all, number(in.Snoozed)+" snoozed")
	}
	return all
}

// IfNothing says what becomes of an incident by itself.
func (p *page) IfNothing(in operate.Incident) string {
	asked := "the API is asked again now"
	switch {
	case in.NextProbe.IsZero():
		return "it stays as it is. The API is not asked any more, and only a person ends this."
	case p.Future(in.NextProbe):
		asked = "the API is asked again at " + p.Clock(in.NextProbe)
	}
	if in.FreesAt.IsZero() {
		return asked + ". What it finds is settled; no trace frees no key, and after its last probe a key is a dead letter."
	}
	if !p.Future(in.FreesAt) {
		return asked + ". What it finds is settled, and no trace frees a key: its next retry runs, once."
	}
	return asked + ". What it finds is settled. From " + p.Clock(in.FreesAt) + " no trace frees a key, and its next retry " +
		"runs, once."
}
