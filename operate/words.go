package operate

import (
	"cmp"
	"fmt"

	"github.com/stet-dev/stet/reconcile"
)

// The words for people. The machine's words stay in the record.

// causeWords say why a record is in its state, of one request and of several.
var causeWords = map[string][2]string{
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
	"resolved":           {"it was settled so", "they were settled so"},
	"answered-elsewhere": {"the handler answered past the guard", "the handlers answered past the guard"},
}

// CauseText says a cause in words, of so many requests.
func CauseText(word string, count int) string {
	c, known := causeWords[word]
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

// findingWords say what a probe was answered, and what several were.
var findingWords = map[string][2]string{
	"happened": {"found it", "found"},
	"goes-on":  {"it still goes on", "still going on"},
	"pending":  {"neither yes nor no", "with an answer that says neither"},
	"voided":   {"it was cancelled", "cancelled"},
	"silent":   {"no answer", "no answer"},
	"missing":  {"no trace", "no trace"},
}

// FindingText says in words what several probes were answered.
func FindingText(found string) string { return findingWords[found][1] }

// Text says in words what the probe was answered, and with which status.
func (a *ProbeAnswer) Text() string {
	if a == nil {
		return "not asked yet"
	}
	text := cmp.Or(findingWords[a.Found][0], a.Found)
	if a.Status == 0 || a.Found == reconcile.Silent {
		return text
	}
	return fmt.Sprintf("%s (%d)", text, a.Status)
}
