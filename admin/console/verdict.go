package console

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/stet-dev/stet/internal/age"
	"github.com/stet-dev/stet/operate"
)

// verdict is what a key's page says first: what is known, what is not, what a client hears now, and
// what happens if the user does nothing.
type verdict struct {
	Known, Open, Hears panel
	Nothing            string
}

// panel is one clause, and the facts that it stands on.
type panel struct {
	Say, Quote string
	Facts      []fact
}

// fact is a sentence beside its icon.
type fact struct {
	Icon, Color string
	Bold, Text  string
	Link, More  string
}

func (a *panel) add(f fact) { a.Facts = append(a.Facts, f) }

// say adds a fact that is a sentence alone.
func (a *panel) say(icon, color, text string) { a.add(fact{Icon: icon, Color: color, Text: text}) }

func (p *page) verdict(r *operate.Record) verdict {
	var v verdict
	switch r.State {
	case "running":
		p.ofRunning(r, &v)
	case "completed", "failed":
		p.ofAnswered(r, &v)
	case "retryable":
		v.Known = panel{Say: "It did not happen, so that a retry may run."}
		v.Known.say("retry", "retry", "Known since "+p.Clock(r.UpdatedAt)+because(p, r)+". Who said so is below.")
		v.Open = panel{Say: "Nothing is in doubt."}
	case "unknown":
		p.ofUnknown(r, &v)
	case "expired":
		v.Known = panel{Say: "It was completed. The answer is not kept any more."}
		v.Known.say("over", "over", "Its time was over at "+p.Clock(r.UpdatedAt)+".")
		v.Open = panel{Say: "Nothing is in doubt."}
	default:
		v.Known, v.Open = panel{Say: "It is " + r.State + "."}, panel{Say: "Nothing more is recorded."}
	}
	if r.Cause == causeDouble {
		v.Known.Facts = append([]fact{{Icon: "dead", Color: "dead", Bold: "It had its effect twice.",
			Text: "An earlier execution had its effect, and the key was executed again. Undo one, and write down which."}}, v.Known.Facts...)
	}
	v.Hears = p.hears(r)
	v.Nothing = p.ifNothing(r)
	return v
}

// causeDouble is the cause of a record whose key had its effect twice.
const causeDouble = "double-effect"

func because(p *page, r *operate.Record) string {
	if r.Cause == "" {
		return ""
	}
	if r.Cause == "resolved" {
		return ": it was settled so"
	}
	return ": " + p.Cause(r.Cause, 1)
}

func at(owner string) string {
	if owner == "" {
		return ""
	}
	return " by " + owner
}

func (p *page) ofRunning(r *operate.Record, v *verdict) {
	if r.Cause == "suspended" {
		v.Known = panel{Say: "It stopped between two steps, and is to go on."}
		v.Known.say("running", "running", "The last point that it came to is "+cmp.Or(r.Point, "its beginning")+".")
		v.Open = panel{Say: "How the steps that follow end."}
		return
	}
	v.Known = panel{Say: "It runs now" + at(r.Owner) + "."}
	v.Known.say("running", "running", fmt.Sprintf("Attempt %d; the key came first at %s.",
		r.Attempt, p.Clock(r.CreatedAt)))
	if lapsed(r) {
		v.Known.Say = "It ran" + at(r.Owner) + ", and its lease is over."
		v.Known.say("beat", "ink", "The lease ended at "+p.Clock(r.DueAt)+", and was not renewed.")
		v.Open = panel{Say: "Whether it happened."}
		return
	}
	if !r.DueAt.IsZero() {
		v.Known.say("beat", "ink", "The lease ends at "+p.Clock(r.DueAt)+", unless it is renewed before.")
	}
	v.Open = panel{Say: "How it ends."}
}

// lapsed reports whether the lease of a run is over: it is unknown to all who ask.
func lapsed(r *operate.Record) bool {
	return r.State == "running" && r.Outlook.Client.Code == "outcome-unknown"
}

// retained reports whether the answer of a record that has one is stored, and not only its status.
func retained(r *operate.Record) bool { return r.Outlook.Client.Code != "result-not-retained" }

func (p *page) ofAnswered(r *operate.Record, v *verdict) {
	status := fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status))
	answer := fmt.Sprintf("%s and %s, at %s", strings.TrimSpace(status), answerSize(r), p.Clock(r.CompletedAt))
	if r.State == "failed" {
		v.Known = panel{Say: "The API failed: " + strings.TrimSpace(status) + "."}
		v.Known.say("failed", "dead", answer+at(r.Owner)+".")
		v.Open = panel{Say: "Whether it had an effect before it failed."}
		v.Open.say("clock", "ink", kept(p, r))
		return
	}
	v.Known = panel{Say: "It happened, and its answer is stored."}
	if !retained(r) {
		v.Known.Say = "It happened. Of its answer only the status is kept."
	}
	v.Known.say("done", "done", answer+".")
	times := "once"
	if r.Attempt > 1 {
		times = fmt.Sprintf("in attempt %d", r.Attempt)
	}
	v.Known.say("running", "running", "It ran "+times+at(r.Owner)+took(p, r)+".")
	v.Open = panel{Say: "Nothing is in doubt."}
	v.Open.say("clock", "ink", kept(p, r))
}

func took(p *page, r *operate.Record) string {
	if r.TookMS <= 0 {
		return ""
	}
	return ", and took " + milli(r.TookMS)
}

func answerSize(r *operate.Record) string {
	if r.ResponseBytes == nil {
		return "no body"
	}
	return sizeOf(*r.ResponseBytes)
}

func kept(p *page, r *operate.Record) string {
	what := "The answer"
	if !retained(r) {
		what = "Its status"
	}
	if r.ExpiresAt.IsZero() {
		return what + " is kept."
	}
	return what + " is kept until " + p.Clock(r.ExpiresAt) + "."
}

// ofUnknown says what speaks for and against it. What speaks loudest comes first.
func (p *page) ofUnknown(r *operate.Record, v *verdict) {
	since := r.UnknownSince
	ran := fact{Icon: "running", Color: "running", Text: fmt.Sprintf("Attempt %d began at %s", r.Attempt,
		p.Clock(r.CreatedAt)) + at(r.Owner) + "."}
	if r.Attempt > 1 {
		ran.Text = fmt.Sprintf("Attempt %d", r.Attempt) + at(r.Owner) + "; the key came first at " +
			p.Clock(r.CreatedAt) + "."
	}
	switch {
	case r.Late != nil:
		v.Known = panel{Say: fmt.Sprintf("An answer came, %s too late: %d.", age.Long(r.Late.At.Sub(since)), r.Late.Status)}
		v.Known.say("reply", "ink", fmt.Sprintf("The API answered at %s with %d and %s. It is kept as evidence.",
			p.Clock(r.Late.At), r.Late.Status, sizeOf(r.Late.Bytes)))
		v.Open = panel{Say: "Whether that answer is the end of it."}
	case r.Escalated:
		v.Known = panel{Say: "Every probe was asked, and none could tell."}
		v.Open = panel{Say: "Whether it happened."}
	default:
		v.Known = panel{Say: first(p.Cause(r.Cause, 1)) + "."}
		v.Open = panel{Say: "Whether it happened."}
	}
	v.Known.add(ran)
	if r.Escalated {
		v.Known.say("unknown", "unknown", "Unknown since "+p.Clock(since)+": "+p.Cause(r.Cause, 1)+".")
	}
	v.Known.add(p.probeFact(r))
	if r.With != nil {
		v.Known.add(fact{Icon: "person", Color: "ink", Bold: "With " + r.With.To, Text: "since " + p.Clock(r.With.At) +
			", by " + r.With.Who + quoted(r.With.Note)})
	}
	if r.Snooze != nil && p.Future(r.Snooze.Until) {
		v.Known.add(fact{Icon: "clock", Color: "ink", Bold: "Snoozed until " + p.Clock(r.Snooze.Until), Text: "by " +
			r.Snooze.Who + quoted(r.Snooze.Reason)})
	}
	p.openOfUnknown(r, v)
}

func quoted(s string) string {
	if s == "" {
		return "."
	}
	return ": “" + s + "”"
}

// first makes the beginning of a sentence of a clause.
func first(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + s[n:]
}

func (p *page) probeFact(r *operate.Record) fact {
	f := fact{Icon: "ask", Color: "ink"}
	times := plural(r.Probes, "time", "times")
	switch a := r.Probe; {
	case a == nil && r.Probes == 0:
		f.Text = "The API has not been asked about it yet."
	case a == nil:
		f.Text = "The API was asked " + times + "; what it said last is not recorded."
	default:
		f.Bold = first(probeWord(a.Found, a.Status))
		f.Text = "is what the API said at " + p.Clock(a.At) + ", " + p.Age(a.At) + " ago, in " + milli(a.TookMS) +
			"; the gateway has asked " + times + "."
		if a.Found == "silent" {
			f.Bold, f.Text = "No answer", "when the API was last asked, "+p.Age(a.At)+" ago; the gateway has asked "+times+"."
		}
		if a.Evidence != "" && a.Found != "missing" && a.Found != "pending" {
			f.Text += " Evidence: " + a.Evidence
		}
	}
	return f
}

func (p *page) openOfUnknown(r *operate.Record, v *verdict) {
	o := r.Outlook
	switch {
	case o.SettledAt.IsZero():
		if r.Late == nil {
			v.Open.say("clock", "ink", "No trace is no proof by itself: a person decides what is.")
		}
	case p.Future(o.SettledAt):
		v.Open.add(fact{Icon: "clock", Color: "ink", Bold: "Until " + p.Clock(o.SettledAt),
			Text: "no trace is no proof: the request may be on its way, for " + p.In(o.SettledAt) + " more."})
	default:
		v.Open.say("clock", "done", "It has settled since "+p.Clock(o.SettledAt)+": no trace is proof now.")
	}
	if r.Late != nil {
		said := "Nothing speaks against it. Look at the provider when the sum matters."
		if r.Probe != nil && (r.Probe.Found == "missing" || r.Probe.Found == "voided") {
			said = "The last probe speaks against it: " + probeWord(r.Probe.Found, r.Probe.Status) + ". Look at the provider."
		}
		v.Open.say("clock", "ink", said)
	} else {
		v.Open.say("reply", "over", "No late answer has come.")
	}
}

// hears is what a client is answered now.
func (p *page) hears(r *operate.Record) panel {
	a := r.Outlook.Client
	h := panel{}
	switch {
	case a.Retry:
		h.Say = "The next retry runs."
	case a.Code == "":
		h.Say, h.Quote = fmt.Sprintf("%d, the stored answer.", a.Status), "Idempotent-Replayed: true"
	default:
		h.Say, h.Quote = fmt.Sprintf("%d %s:", a.Status, a.Code), clientWords[a.Code]
	}
	if r.Asking != nil && r.Asking.Count > 0 {
		n := plural(r.Asking.Count, "time", "times")
		if r.Asking.More {
			n = "at least " + n
		}
		f := fact{Icon: "client", Color: "ink", Bold: n, Text: "so far, last " + p.Age(r.Asking.LastAt) + " ago" +
			again(a) + "."}
		h.add(f)
	} else if r.State == "unknown" {
		said := "No client has asked since"
		if r.Asking != nil {
			said = "It is not known whether clients ask"
		}
		h.say("client", "over", said+again(a)+".")
	}
	if m := r.Mismatch; m != nil {
		h.add(fact{Icon: "differs", Color: "dead", Text: plural(m.Count, "request", "requests") +
			" with this key and another content, the last at " + p.Clock(m.At) + ":",
			Link: "#mismatch", More: "what differs"})
	}
	return h
}

func again(a operate.ClientAnswer) string {
	if a.RetryAfter <= 0 {
		return ""
	}
	return fmt.Sprintf("; told to come again after %s s", trimmed(a.RetryAfter, 0))
}

// clientWords are what the problem documents mean for a client.
var clientWords = map[string]string{
	"outcome-unknown":     "“not run again; ask again with the same key”",
	"in-progress":         "“it runs; ask again with the same key”",
	"expired-key":         "“this key was used long ago; take a new one”",
	"result-not-retained": "“it is done; its answer is not kept”",
}

// ifNothing says what happens by itself.
func (p *page) ifNothing(r *operate.Record) string {
	o := r.Outlook
	when, frees := "At "+p.Clock(o.At), "From "+p.Clock(o.FreesAt)
	if !p.Future(o.At) { // it is due
		when = "Now"
	}
	if !p.Future(o.FreesAt) {
		frees = "From now on"
	}
	switch o.IfNothing {
	case "lease-ends":
		if lapsed(r) {
			return "Within seconds it is written down as unknown, and the API is asked what became of it."
		}
		return when + " the lease ends, unless it is renewed before. The rules of its route say what follows: " +
			"by default it is unknown then."
	case "resumes":
		return when + " it goes on from its last point."
	case "probe":
		if !o.FreesAt.IsZero() && o.FreesAt.After(o.At) {
			return when + " the API is asked again; if it has found it, retries get its answer. " + frees +
				" no trace frees the key, and the client's next retry runs, once."
		}
		return when + " the API is asked again. If it has found it, retries get its answer. " +
			first(plural(o.ProbesLeft, "probe is", "probes are")) + " left; after the last it is a dead letter."
	case "probe-frees":
		return when + " the API is asked again, when it has settled. " +
			"No trace then frees the key, and the client's next retry runs, once."
	case "stays":
		return "It stays as it is. Only a person ends it, and until then clients hear the same."
	case "expires":
		if r.State == "retryable" {
			return "The next retry runs. If none comes, the key is free from " + p.Clock(o.At) + "."
		}
		gets := "gets this answer"
		if !retained(r) {
			gets = "is told that its answer is not kept"
		}
		return "Every retry until " + p.Clock(o.At) + " " + gets + ". After that the key is free, and a retry is a " +
			"new request, or it is refused as expired: the rules of its route say which."
	case "refused":
		return "The key is refused as expired until " + p.Clock(o.At) + ". Then it is free."
	}
	return "It stays as it is."
}

// mayRelease is the ruling of the API on whether "it did not" is offered, with the instant from
// which it changes.
func (p *page) mayRelease(r *operate.Record) operate.Release {
	a := r.Outlook.Release
	switch {
	case a == nil:
		return operate.Release{Why: "It is " + markOf(r).Word + "."}
	case p.Future(a.From):
		why := "From " + p.Clock(a.From) + ", in " + p.In(a.From) + ": it may still be on its way to the API."
		return operate.Release{Why: why, With: a.With}
	}
	return *a
}
