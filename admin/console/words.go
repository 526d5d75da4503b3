package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet/internal/age"
	"github.com/stet-dev/stet/operate"
)

// The words of the pages. The machine's words stay in the record.

// causes say why an outcome is not known, of one request and of several.
var causes = map[string][2]string{
	"lease-lapsed":       {"the gateway died while it ran", "the gateway died while they ran"},
	"holder-gone":        {"the gateway died while it ran", "the gateway died while they ran"},
	"lease-lost":         {"the store took no sign of life", "the store took no sign of life"},
	"upstream-failed":    {"sent, and the connection broke", "sent, and the connection broke"},
	"truncated-response": {"the answer broke off", "the answers broke off"},
	"execution-timeout":  {"no answer within its time", "no answer within their time"},
	"stated":             {"the API said so", "the API said so"},
	"status":             {"a status of the API said so", "a status of the API said so"},
	"panic":              {"the handler panicked", "the handler panicked"},
	"bad-outcome": {"the API stated its outcome in a word that is not known",
		"the API stated outcomes in words that are not known"},
	"contradicted":       {"it was freed, and then an answer came", "they were freed, and then answers came"},
	"double-effect":      {"it had its effect twice", "they had their effect twice"},
	"abandoned":          {"the gateway ended while it ran", "the gateway ended while they ran"},
	"given-up":           {"it was given up before anything ran", "they were given up before anything ran"},
	"hijacked":           {"the handler took the connection over", "the handlers took the connections over"},
	"client-gone":        {"the client went away while it ran", "the clients went away while they ran"},
	"elsewhere":          {"it was sent elsewhere", "they were sent elsewhere"},
	"rolled-back":        {"its transaction was rolled back", "their transactions were rolled back"},
	"transaction-ended":  {"its transaction ended before its end", "their transactions ended before their end"},
	"error":              {"the handler returned an error", "the handlers returned errors"},
	"not-resumed":        {"it stopped half-way, and was not resumed", "they stopped half-way, and were not resumed"},
	"second-guard":       {"it went through two guards", "they went through two guards"},
	"timeout-handler":    {"the service answered before the handler had ended", "the service answered before the handlers had ended"},
	"bad-render":         {"the answer to it could not be drawn", "the answers to them could not be drawn"},
	"no-transaction":     {"its transaction could not begin", "their transactions could not begin"},
	"flow-rules":         {"its steps are not those that it began with", "their steps are not those that they began with"},
	"flow-cannot-tell":   {"a step ended without saying what it did", "steps ended without saying what they did"},
	"answered-elsewhere": {"the handler answered past the guard", "the handlers answered past the guard"},
}

// Cause is a cause in words.
func (p *page) Cause(word string, count int) string {
	c, known := causes[word]
	switch {
	case word == "":
		return "for a reason that is not recorded"
	case !known:
		return word
	case count == 1:
		return c[0]
	}
	return c[1]
}

// probed is what a probe was answered, in words, with its status.
func probed(a *operate.ProbeAnswer) string {
	if a == nil {
		return "not asked yet"
	}
	return probeWord(a.Found, a.Status)
}

// probeWords say what a probe was answered, and what several were, those first that tell most.
var probeWords = []struct{ found, one, many string }{
	{"happened", "found it", "found"},
	{"goes-on", "it still goes on", "still going on"},
	{"pending", "an answer that says neither", "with an answer that says neither"},
	{"voided", "it was cancelled", "cancelled"},
	{"silent", "no answer", "no answer"},
	{"missing", "no trace", "no trace"},
}

func probeWord(found string, status int) string {
	for _, w := range probeWords {
		switch {
		case w.found != found:
		case status == 0 || found == "silent":
			return w.one
		case found == "pending":
			return fmt.Sprintf("%d: neither", status)
		default:
			return fmt.Sprintf("%s (%d)", w.one, status)
		}
	}
	return found
}

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

// Clock is an instant: of today its time, of this week with its day, and else with its date. It is
// UTC, which the page says once.
func (p *page) Clock(t time.Time) string {
	t, now := t.UTC(), p.Now.UTC()
	switch d := now.Sub(t); {
	case t.IsZero():
		return "never"
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04:05")
	case d > -6*24*time.Hour && d < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	case t.Year() == now.Year():
		return t.Format("2 Jan 15:04")
	}
	return t.Format("2 Jan 2006 15:04")
}

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
