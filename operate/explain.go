package operate

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/age"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
)

// Explanation says in sentences what follows from a record, the same in console, commands and API.
type Explanation struct {
	Known  []string `json:"known"`  // what is known; the first sentence is the answer in short
	Open   []string `json:"open"`   // what is not known
	Client []string `json:"client"` // what a client that sends the request again is answered
	Next   []string `json:"next"`   // what happens if nothing is done, in order of time
}

// explain computes the explanation of a record that has its outlook, as of now.
func explain(r *Record, now time.Time) Explanation {
	x := explainer{r, now}
	known, open := x.explainState()
	if r.Cause == stet.CauseDoubleEffect {
		known = append([]string{"It had its effect twice.",
			"An earlier execution had its effect, and the key was executed again. Undo one, and write down which."}, known...)
	}
	return Explanation{Known: known, Open: open, Client: x.explainClient(), Next: x.explainNext()}
}

// explainer writes the sentences about a record that are true now.
type explainer struct {
	*Record
	now time.Time
}

func (x explainer) writeInstant(t time.Time) string { return writeInstant(t, x.now) }

// writeDue begins a sentence with when something happens, which is now if it is due.
func (x explainer) writeDue(word string, t time.Time, now string) string {
	if !t.After(x.now) {
		return now
	}
	return word + " " + x.writeInstant(t)
}

// nameOwner names the process that runs it, or ran it last.
func (x explainer) nameOwner() string {
	if x.Owner == "" {
		return ""
	}
	return " on " + x.Owner
}

// answersWith reports whether clients are answered with this problem.
func (x explainer) answersWith(code stethttp.Code) bool { return x.Outlook.Client.Code == string(code) }

// hasLapsed reports whether the lease of a run is over: it is unknown to all who ask.
func (x explainer) hasLapsed() bool {
	return x.State == "running" && x.answersWith(stethttp.OutcomeUnknown)
}

const (
	inDoubt = "It is not known whether it happened."
	noDoubt = "Nothing is in doubt."
)

// explainState says what is known, and what is not.
func (x explainer) explainState() (known, open []string) {
	switch x.State {
	case "running":
		return x.explainRun()
	case "completed":
		return x.explainAnswer(), []string{noDoubt}
	case stateFailed:
		return x.explainAnswer(), []string{"It is not known whether it had an effect before it failed."}
	case "retryable":
		why := ""
		if x.Cause != "" {
			why = ": " + CauseText(x.Cause, 1)
		}
		return []string{"It did not happen, so that a retry may run.", "This is known since " + x.writeInstant(x.UpdatedAt) + why + "."},
			[]string{noDoubt}
	case "expired":
		return []string{"It was completed. The answer is not kept any more.", "Its time was over at " + x.writeInstant(x.UpdatedAt) + "."},
			[]string{noDoubt}
	}
	return x.explainUnknown(), x.explainDoubt()
}

func (x explainer) explainRun() (known, open []string) {
	if x.Cause == stet.CauseSuspended {
		known = []string{"It stopped between two steps, and is to go on.", "It has not come to a point yet."}
		if x.Point != "" {
			known[1] = "The last point that it came to is " + x.Point + "."
		}
		return known, []string{"It is not known yet how the steps that follow end."}
	}
	known = []string{"It runs now" + x.nameOwner() + ".",
		fmt.Sprintf("This is attempt %d; the key came first at %s.", x.Attempt, x.writeInstant(x.CreatedAt))}
	if x.hasLapsed() {
		known[0] = "It ran" + x.nameOwner() + ", and its lease is over."
		return append(known, "The lease ended at "+x.writeInstant(x.DueAt)+", and was not renewed."), []string{inDoubt}
	}
	return known, []string{"It is not known yet how it ends."}
}

// explainAnswer says what is known of what was answered.
func (x explainer) explainAnswer() []string {
	said := "It happened, and its answer is stored."
	if x.State == stateFailed {
		said = fmt.Sprintf("The API failed: it answered %d.", x.Status)
	} else if x.answersWith(stethttp.ResultNotRetained) {
		said = "It happened. Of its answer only the status is kept."
	}
	size := "without a body"
	if x.ResponseBytes != nil {
		size = "with " + writeCount(int(*x.ResponseBytes), "byte", "bytes")
	}
	times := "once"
	if x.Attempt > 1 {
		times = fmt.Sprintf("in attempt %d", x.Attempt)
	}
	return []string{said, fmt.Sprintf("Its answer, %d %s, came at %s.", x.Status, size, x.writeInstant(x.CompletedAt)),
		"It ran " + times + x.nameOwner() + "."}
}

// explainUnknown says what speaks for and against it. What tells most comes first.
func (x explainer) explainUnknown() (known []string) {
	cause, since := CauseText(x.Cause, 1), x.UnknownSince
	switch late := x.Late; {
	case late != nil:
		known = []string{fmt.Sprintf("An answer came, %s too late: %d.", age.Long(late.At.Sub(since)), late.Status),
			fmt.Sprintf("It came at %s with %s, and is kept as evidence.", x.writeInstant(late.At), writeCount(int(late.Bytes), "byte", "bytes"))}
	case x.Escalated:
		known = []string{"Every probe was asked, and none could tell.", "It is unknown since " + x.writeInstant(since) + ": " + cause + "."}
	case x.Cause != stet.CauseDoubleEffect:
		known = []string{capitalizeText(cause) + "."}
	}
	if x.Attempt > 1 {
		known = append(known, fmt.Sprintf("It was attempt %d%s; the key came first at %s.", x.Attempt, x.nameOwner(), x.writeInstant(x.CreatedAt)))
	} else {
		known = append(known, "It began at "+x.writeInstant(x.CreatedAt)+x.nameOwner()+".")
	}
	known = append(known, x.explainProbes()...)
	if to := x.With; to != nil {
		known = append(known, "It is with "+to.To+" since "+x.writeInstant(to.At)+", by "+to.Who+quoteText(to.Note))
	}
	if quiet := x.Snooze; quiet != nil && quiet.Until.After(x.now) {
		known = append(known, "It is snoozed until "+x.writeInstant(quiet.Until)+", by "+quiet.Who+quoteText(quiet.Reason))
	}
	return known
}

func (x explainer) explainProbes() []string {
	times := "The gateway has asked " + writeTimes(x.Probes)
	switch a := x.Probe; {
	case a == nil && x.Probes == 0:
		return []string{"The API has not been asked about it yet."}
	case a == nil:
		return []string{times + "; what it was told last is not recorded."}
	case a.Found == reconcile.Silent:
		return []string{"No answer came when the API was last asked, at " + x.writeInstant(a.At) + ".", times + "."}
	default:
		said := capitalizeText(a.Text()) + " is what the API said at " + x.writeInstant(a.At)
		if a.Evidence != "" && a.Found != "missing" && a.Found != "pending" {
			return []string{said + quoteText(a.Evidence), times + "."}
		}
		return []string{said + ".", times + "."}
	}
}

// explainDoubt says what is not known of an unknown outcome, and what would prove it.
func (x explainer) explainDoubt() []string {
	proof := ""
	switch at := x.Outlook.SettledAt; {
	case at.After(x.now):
		proof = "Until " + x.writeInstant(at) + " no trace is no proof: the request may be on its way."
	case !at.IsZero():
		proof = "It has settled since " + x.writeInstant(at) + ": no trace is proof now."
	case x.Late == nil:
		proof = "No trace is no proof by itself: a person decides what is."
	}
	open, against := inDoubt, "No late answer has come."
	if x.Late != nil {
		open, against = "It is not known whether that answer is the end of it.", "Nothing speaks against it. Look at the provider when the sum matters."
		if x.Probe != nil && (x.Probe.Found == "missing" || x.Probe.Found == "voided") {
			against = "The last probe speaks against it: " + x.Probe.Text() + ". Look at the provider."
		}
	}
	return slices.DeleteFunc([]string{open, proof, against}, func(s string) bool { return s == "" })
}

// clientsHear are what the problem documents tell a client.
var clientsHear = map[stethttp.Code]string{
	stethttp.OutcomeUnknown:    "The request is not run again, and the client is to ask again with the same key.",
	stethttp.InProgress:        "The request runs, and the client is to ask again with the same key.",
	stethttp.ExpiredKey:        "The key was used long ago, and the client is to take a new one.",
	stethttp.ResultNotRetained: "The request is done, and its answer is not kept.",
}

func (x explainer) explainClient() (said []string) {
	switch a := x.Outlook.Client; {
	case a.Retry:
		said = []string{"The next retry runs."}
	case a.Code == "":
		said = []string{fmt.Sprintf("It is answered %d, the stored answer, with Idempotent-Replayed: true.", a.Status)}
	default:
		said = []string{fmt.Sprintf("It is answered %d %s.", a.Status, a.Code), clientsHear[stethttp.Code(a.Code)]}
	}
	if after := x.Outlook.Client.RetryAfter; after > 0 {
		said = append(said, fmt.Sprintf("It is told to come again after %.0f s.", after))
	}
	switch a := x.Asking; {
	case a != nil && a.Count > 0:
		least := ""
		if a.More {
			least = "at least "
		}
		said = append(said, "Clients have asked "+least+writeTimes(a.Count)+" so far, last at "+x.writeInstant(a.LastAt)+".")
	case x.State != "unknown":
	case a != nil:
		said = append(said, "It is not known whether clients ask.")
	default:
		said = append(said, "No client has asked since.")
	}
	if m := x.Mismatch; m != nil {
		said = append(said, writeCount(m.Count, "request", "requests")+" came with this key and another content, the last at "+x.writeInstant(m.At)+".")
	}
	return said
}

// explainNext says what happens by itself, and when a snooze ends.
func (x explainer) explainNext() []string {
	quiet := x.Snooze
	if quiet == nil || !quiet.Until.After(x.now) {
		return x.explainOutlook()
	}
	ends := "At " + x.writeInstant(quiet.Until) + " the snooze ends, and it waits in the list of unknown ones again."
	next, place := x.explainOutlook(), 1
	switch o := x.Outlook; {
	case o.At.After(quiet.Until):
		place = 0
	case !o.FreesAt.After(quiet.Until):
		place = len(next)
	}
	return slices.Insert(next, place, ends)
}

// explainOutlook says what happens by itself, in order of time.
func (x explainer) explainOutlook() []string {
	o := x.Outlook
	when := x.writeDue("At", o.At, "Now")
	switch reconcile.Next(o.IfNothing) {
	case reconcile.LeaseEnds:
		if x.hasLapsed() {
			return []string{"Within seconds it is written down as unknown, and the API is asked what became of it."}
		}
		return []string{when + " its lease ends, unless it is renewed before.",
			"The rules of its route say what follows then: by default it is unknown."}
	case reconcile.Resumes:
		return []string{when + " it goes on from its last point."}
	case reconcile.Probes:
		asked := when + " the API is asked again. If it knows the request, retries get its answer."
		if o.FreesAt.After(o.At) {
			return []string{asked, x.writeDue("From", o.FreesAt, "From now on") + " no trace frees the key, and the client's next retry runs, once."}
		}
		return []string{asked, writeCount(o.ProbesLeft, "probe is", "probes are") + " left; after the last it is a dead letter."}
	case reconcile.ProbeFrees:
		return []string{when + " the API is asked again, when it has settled.",
			"No trace then frees the key, and the client's next retry runs, once."}
	case reconcile.Expires:
		return x.explainEnd()
	case reconcile.Refused:
		return []string{"The key is refused as expired until " + x.writeInstant(o.At) + ". Then it is free."}
	case reconcile.Stays:
		return []string{"It stays as it is. Only a person ends it, and until then clients are answered the same."}
	}
	return []string{"It stays as it is."}
}

// explainEnd says what happens when a record's time is over.
func (x explainer) explainEnd() []string {
	end := x.writeInstant(x.Outlook.At)
	if x.State == "retryable" {
		return []string{"The next retry runs. If none comes, the key is free from " + end + "."}
	}
	gets := "gets this answer"
	if x.answersWith(stethttp.ResultNotRetained) {
		gets = "is told that its answer is not kept"
	}
	return []string{"Every retry until " + end + " " + gets + ".",
		"After that the key is free, and a retry is a new request, or it is refused as expired: the rules of its route say which."}
}

// quoteText ends a sentence with what a person or an API wrote.
func quoteText(s string) string {
	if s == "" {
		return "."
	}
	return ": “" + s + "”"
}

// writeInstant says that an instant is UTC, as a sentence may be read anywhere.
func writeInstant(t, now time.Time) string { return age.Clock(t, now) + " UTC" }

// capitalizeText makes the beginning of a sentence of a clause.
func capitalizeText(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + s[n:]
}

func writeTimes(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprint(n, " times")
}

// writeCount writes a number with its noun.
func writeCount(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}
