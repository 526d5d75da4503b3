package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet/operate"
)

// event is something that happened to a key.
type event struct {
	At          time.Time
	Icon, Color string
	Bold, Text  string
	Meta        string
	Trace       string
}

// timeline is what is known of a key's life, newest first: the audit trail, and the instants that
// the record has.
func timeline(r *operate.Record, entries []operate.Entry) []event {
	all := make([]event, 0, len(entries)+8)
	add := func(e event) {
		if !e.At.IsZero() {
			all = append(all, e)
		}
	}
	for i := range entries {
		add(ofEntry(&entries[i]))
	}
	addRun(r, add)
	addOutcome(r, entries, add)
	slices.SortStableFunc(all, func(a, b event) int { return b.At.Compare(a.At) })
	return all
}

// addRun adds what the record says of its run.
func addRun(r *operate.Record, add func(event)) {
	for _, point := range slices.Backward(r.Points) { // the last first, as the first is reached at once
		add(event{At: point.At, Icon: "point", Color: "running", Text: "The flow came to " + point.Name + "."})
	}
	add(event{At: r.CreatedAt, Icon: "running", Color: "running", Text: "The key came first, and was reserved.",
		Trace: trace(r, 1)})
	if r.State == "running" && r.UpdatedAt.Sub(r.CreatedAt) >= time.Second {
		add(event{At: r.UpdatedAt, Icon: "beat", Color: "running", Text: "The last sign of life: the lease was renewed.",
			Meta: r.Owner})
	}
}

// addOutcome adds how the run ended, as far as that is known, and who has asked about it since. It
// leaves out what the entries say already.
func addOutcome(r *operate.Record, entries []operate.Entry, add func(event)) {
	if r.State == "unknown" {
		add(event{At: r.UnknownSince, Icon: "unknown", Color: "unknown", Bold: "Unknown.",
			Text: first(operate.CauseText(r.Cause, 1)) + ".", Meta: r.Cause, Trace: trace(r, 2)})
	}
	ended := slices.ContainsFunc(entries, func(e operate.Entry) bool { return e.To != "" && e.From != e.To })
	if !r.CompletedAt.IsZero() && !ended && (r.State == "completed" || r.State == "failed") {
		m, size := markOf(r), "no body"
		if r.ResponseBytes != nil {
			size = sizeOf(*r.ResponseBytes)
		}
		add(event{At: r.CompletedAt, Icon: m.Icon, Color: m.Class, Bold: first(m.Word) + ".",
			Text: fmt.Sprintf("%d, %s.", r.Status, size), Trace: trace(r, 2)})
	}
	if a := r.Probe; a != nil && !slices.ContainsFunc(entries, func(e operate.Entry) bool {
		return e.Action == "probe" && e.At.Sub(a.At).Abs() < 2*time.Second
	}) {
		add(ofProbe(a, r.Probes))
	}
	if r.Late != nil {
		add(event{At: r.Late.At, Icon: "reply", Color: "unknown", Bold: "The answer came after all:",
			Text: fmt.Sprintf("%d, %s. It changed nothing.", r.Late.Status, sizeOf(r.Late.Bytes))})
	}
	if m := r.Mismatch; m != nil {
		add(event{At: m.At, Icon: "differs", Color: "dead", Bold: "The same key came with another request.",
			Text: "It was not run.", Trace: m.TraceID})
	}
	if a := r.Asking; a != nil && a.Count > 0 {
		add(event{At: a.LastAt, Icon: "client", Color: "ink", Text: "A client asked, and was told that it is not known.",
			Meta: plural(a.Count, "time", "times") + " so far"})
	}
}

// ofProbe is the answer that counts as an event, of so many probes.
func ofProbe(a *operate.ProbeAnswer, probes int) event {
	ev := event{At: a.At, Icon: "ask", Color: "ink", Bold: first(a.Text()),
		Text: "said the API, in " + milli(a.TookMS) + "."}
	if a.Found == "silent" {
		ev.Text = "when the API was asked."
	}
	if a.Evidence != "" && a.Found != "missing" {
		ev.Meta = a.Evidence
	}
	if probes > 1 {
		ev.Meta = joined(ev.Meta, "asked "+number(probes)+" times so far")
	}
	return ev
}

// trace is the trace of the record where it belongs to this event: that of the first attempt at the
// beginning, and that of a later one at its end.
func trace(r *operate.Record, where int) string {
	if (r.Attempt <= 1) == (where == 1) {
		return r.TraceID
	}
	return ""
}

// actionWords are the words for the actions of the audit trail.
var actionWords = map[string]struct{ icon, color, text string }{
	"resolve":        {"done", "done", "settled it: it happened"},
	"release":        {"retry", "retry", "settled it: it did not happen, the key is free"},
	"reopen":         {"running", "running", "let it run again"},
	"purge":          {"failed", "ink", "dropped the stored answer"},
	"extend":         {"clock", "ink", "keeps the answer for longer"},
	"testify":        {"reply", "unknown", "kept an answer that came too late"},
	"escalate":       {"dead", "dead", "gave up asking: it is a dead letter"},
	"reveal":         {"lock", "ink", "looked at the key and what is stored"},
	"note":           {"person", "ink", "wrote a note"},
	"probe":          {"ask", "ink", "asked the API again"},
	"contradiction":  {"ask", "unknown", "said otherwise than the record"},
	"double-effect":  {"dead", "dead", "tells of a double effect"},
	"snooze":         {"clock", "ink", "snoozed it"},
	"wake":           {"clock", "ink", "took the snooze back"},
	"hand":           {"person", "ink", "handed it over"},
	"bulk":           {"person", "ink", "started a job"},
	"bulk-stop":      {"person", "ink", "stopped a job"},
	"login-refused":  {"lock", "dead", "was refused: a token that is not known"},
	"outbox-retry":   {"retry", "retry", "has a message delivered again"},
	"outbox-discard": {"failed", "ink", "gave a message up"},
	"outbox-confirm": {"done", "done", "said that a message was delivered"},
}

func ofEntry(e *operate.Entry) event {
	d, known := actionWords[e.Action]
	if !known {
		d.icon, d.color, d.text = "person", "ink", e.Action
	}
	ev := event{At: e.At, Icon: d.icon, Color: d.color, Bold: e.Who, Text: d.text + "."}
	said, moved := "", ""
	if e.Reason != "" {
		said = "“" + e.Reason + "”"
	}
	if e.From != "" && e.From != e.To {
		moved = e.From + " → " + e.To
	}
	ev.Meta = joined(said, e.Evidence, moved)
	return ev
}

// joined is a line of what there is.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}
