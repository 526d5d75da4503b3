package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/reconcile"
)

// said is an explanation as lines, so that a case can ask for the beginning of a part.
func said(x Explanation) string {
	var b strings.Builder
	for _, part := range []struct {
		name  string
		lines []string
	}{{"known", x.Known}, {"open", x.Open}, {"client", x.Client}, {"next", x.Next}} {
		b.WriteString(part.name + ": " + strings.Join(part.lines, "\n") + "\n")
	}
	return b.String()
}

func answered(status int, code string, again float64) ClientAnswer {
	return ClientAnswer{Status: status, Code: code, RetryAfter: again}
}

// An explanation says of each state what is known, what is not, what clients are answered and what
// follows, and no more than is so.
func TestExplanations(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	size := int64(74)
	running := Record{State: "running", Attempt: 1, Owner: "gw-1:902", CreatedAt: at(-time.Minute), DueAt: at(time.Minute),
		Outlook: &Outlook{IfNothing: "lease-ends", At: at(time.Minute), Client: answered(409, "in-progress", 3)}}
	done := Record{State: "completed", Attempt: 1, Owner: "gw-1:902", Status: 201, ResponseBytes: &size, CompletedAt: at(-7 * time.Minute),
		Outlook: &Outlook{IfNothing: "expires", At: at(7 * 24 * time.Hour), Client: ClientAnswer{Status: 201}}}
	unknown := Record{State: "unknown", Cause: "lease-lapsed", Attempt: 1, Owner: "gw-1:902", Probes: 6, CreatedAt: at(-9 * time.Minute), UnknownSince: at(-7 * time.Minute),
		Probe: &ProbeAnswer{At: at(-time.Minute), Found: "missing", Status: 404, Evidence: "the probe was answered 404"},
		Outlook: &Outlook{IfNothing: "probe", At: at(time.Minute), NextProbe: at(time.Minute), ProbesLeft: 2, SettledAt: at(8 * time.Minute), FreesAt: at(9 * time.Minute),
			Client: answered(409, "outcome-unknown", 30)}}
	stays := func(r *Record) {
		*r.Outlook = Outlook{IfNothing: "stays", Client: r.Outlook.Client}
	}
	late := func(r *Record) {
		r.Late, r.Outlook.SettledAt = &LateAnswer{Status: 200, Bytes: 61, At: at(-4 * time.Minute)}, time.Time{}
	}
	for name, c := range map[string]struct {
		of     Record
		change func(r *Record)
		want   []string // with ! before what must not be there
	}{
		"running": {running, nil, []string{"known: It runs now on gw-1:902.\nThis is attempt 1; the key came first at 11:59:00 UTC.\n", "open: It is not known yet how it ends.\n",
			"client: It is answered 409 in-progress.\nThe request runs, and the client is to ask again with the same key.\nIt is told to come again after 3 s.\n",
			"next: At 12:01:00 UTC its lease ends, unless it is renewed before.\n", "by default it is unknown."}},
		"running, lapsed": {running, func(r *Record) {
			r.DueAt, r.Outlook.At, r.Outlook.Client.Code = at(-5*time.Second), at(-5*time.Second), "outcome-unknown"
		}, []string{"known: It ran on gw-1:902, and its lease is over.\n", "The lease ended at 11:59:55 UTC, and was not renewed.\n", "open: It is not known whether it happened.\n",
			"next: Within seconds it is written down as unknown", "!It runs now", "!unless it is renewed"}},
		"suspended": {running, func(r *Record) { r.Cause, r.Point, r.Outlook.IfNothing = "suspended", "charge", "resumes" },
			[]string{"known: It stopped between two steps, and is to go on.\nThe last point that it came to is charge.\n", "open: It is not known yet how the steps that follow end.\n",
				"next: At 12:01:00 UTC it goes on from its last point.\n"}},
		"suspended, at no point": {running, func(r *Record) { r.Cause, r.Outlook.IfNothing, r.Outlook.At = "suspended", "resumes", now },
			[]string{"It has not come to a point yet.", "next: Now it goes on"}},
		"completed": {done, nil, []string{"known: It happened, and its answer is stored.\nIts answer, 201 with 74 bytes, came at 11:53:00 UTC.\nIt ran once on gw-1:902.\n", "open: Nothing is in doubt.\n",
			"client: It is answered 201, the stored answer, with Idempotent-Replayed: true.\n",
			"next: Every retry until 28 Nov 12:00 UTC gets this answer.\nAfter that the key is free, and a retry is a new request, or it is refused as expired"}},
		"completed, tomorrow, with one byte in attempt 2": {done, func(r *Record) {
			*r.ResponseBytes, r.Attempt, r.Owner, r.Outlook.At = 1, 2, "", at(24*time.Hour)
		}, []string{"201 with 1 byte,", "It ran in attempt 2.\n", "Every retry until Sun 12:00 UTC gets"}},
		"completed with its status": {done, func(r *Record) {
			r.ResponseBytes, r.Outlook.Client = nil, answered(409, "result-not-retained", 0)
		}, []string{"known: It happened. Of its answer only the status is kept.\n", "201 without a body", "client: It is answered 409 result-not-retained.\nThe request is done, and its answer is not kept.\n",
			"is told that its answer is not kept", "!its answer is stored", "!gets this answer", "!come again"}},
		"completed, refused": {done, func(r *Record) {
			r.Outlook = &Outlook{IfNothing: "refused", At: at(time.Hour), Client: answered(422, "expired-key", 0)}
		}, []string{"expired-key.\nThe key was used long ago, and the client is to take a new one.", "next: The key is refused as expired until 13:00:00 UTC. Then it is free.\n"}},
		"failed": {done, func(r *Record) { r.State, r.Status = "failed", 502 }, []string{"known: The API failed: it answered 502.\n", "open: It is not known whether it had an effect before it failed.\n"}},
		"retryable": {done, func(r *Record) {
			r.State, r.Cause, r.UpdatedAt, r.Outlook.Client = "retryable", "rolled-back", now, ClientAnswer{Retry: true}
		}, []string{"known: It did not happen, so that a retry may run.\nThis is known since 12:00:00 UTC: its transaction was rolled back.\n", "open: Nothing is in doubt.\n",
			"client: The next retry runs.\n", "next: The next retry runs. If none comes, the key is free from 28 Nov 12:00 UTC.\n"}},
		"retryable, settled by a person": {done, func(r *Record) { r.State, r.Cause = "retryable", "resolved" }, []string{": it was settled so.\n"}},
		"retryable, without a cause":     {done, func(r *Record) { r.State, r.UpdatedAt = "retryable", now }, []string{"since 12:00:00 UTC.\n"}},
		"expired": {done, func(r *Record) { r.State, r.UpdatedAt = "expired", at(-time.Hour) },
			[]string{"known: It was completed. The answer is not kept any more.\nIts time was over at 11:00:00 UTC.\n"}},

		"unknown": {unknown, nil, []string{"known: The gateway died while it ran.\nIt began at 11:51:00 UTC on gw-1:902.\nNo trace (404) is what the API said at 11:59:00 UTC.\nThe gateway has asked 6 times.\n",
			"open: It is not known whether it happened.\nUntil 12:08:00 UTC no trace is no proof: the request may be on its way.\nNo late answer has come.\n",
			"client: It is answered 409 outcome-unknown.\nThe request is not run again, and the client is to ask again with the same key.\nIt is told to come again after 30 s.\nNo client has asked since.\n",
			"next: At 12:01:00 UTC the API is asked again. If it knows the request, retries get its answer.\nFrom 12:09:00 UTC no trace frees the key, and the client's next retry runs, once.\n", "!left;"}},
		"unknown, due": {unknown, func(r *Record) { r.Outlook.At, r.Outlook.FreesAt = at(-time.Minute), at(-time.Second) },
			[]string{"next: Now the API is asked again.", "From now on no trace frees the key"}},
		"unknown, settled": {unknown, func(r *Record) { r.Outlook.SettledAt, r.Outlook.IfNothing = at(-time.Minute), "probe-frees" },
			[]string{"It has settled since 11:59:00 UTC: no trace is proof now.\n", "next: At 12:01:00 UTC the API is asked again, when it has settled.\nNo trace then frees the key"}},
		"unknown, never settled": {unknown, func(r *Record) { r.Outlook.SettledAt, r.Outlook.FreesAt = time.Time{}, time.Time{} },
			[]string{"No trace is no proof by itself: a person decides what is.\n", "2 probes are left; after the last it is a dead letter.", "!frees the key"}},
		"unknown, attempt 2, not asked": {unknown, func(r *Record) { r.Attempt, r.Probe, r.Probes, r.Cause = 2, nil, 0, "" },
			[]string{"known: For a reason that is not recorded.\nIt was attempt 2 on gw-1:902; the key came first at 11:51:00 UTC.\nThe API has not been asked about it yet.\n"}},
		"unknown, asked without a record of it": {unknown, func(r *Record) { r.Probe, r.Probes = nil, 1 }, []string{"The gateway has asked once; what it was told last is not recorded.\n"}},
		"unknown, no answer":                    {unknown, func(r *Record) { r.Probe.Found = reconcile.Silent }, []string{"No answer came when the API was last asked, at 11:59:00 UTC.\n"}},
		"unknown, evidence":                     {unknown, func(r *Record) { r.Probe.Found, r.Probe.Evidence = "voided", "refund re_1" }, []string{"It was cancelled (404) is what the API said at 11:59:00 UTC: “refund re_1”\n"}},
		"late": {unknown, late, []string{"known: An answer came, 3 min too late: 200.\nIt came at 11:56:00 UTC with 61 bytes, and is kept as evidence.\n",
			"open: It is not known whether that answer is the end of it.\nThe last probe speaks against it: no trace (404). Look at the provider.\n", "!No late answer"}},
		"late, undisputed": {unknown, func(r *Record) { late(r); r.Probe = nil }, []string{"Nothing speaks against it. Look at the provider when the sum matters.\n"}},
		"dead letter": {unknown, func(r *Record) { stays(r); r.Escalated = true }, []string{"known: Every probe was asked, and none could tell.\nIt is unknown since 11:53:00 UTC: the gateway died while it ran.\n",
			"next: It stays as it is. Only a person ends it, and until then clients are answered the same.\n"}},
		"snoozed, after the next probe": {unknown, func(r *Record) { r.Snooze = &Snooze{Until: at(5 * time.Minute), Who: "ben", Reason: "INC-1"} },
			[]string{"It is snoozed until 12:05:00 UTC, by ben: “INC-1”\n", "get its answer.\nAt 12:05:00 UTC the snooze ends, and it waits in the list of unknown ones again.\nFrom 12:09:00"}},
		"snoozed, before the next probe": {unknown, func(r *Record) { r.Snooze = &Snooze{Until: at(time.Second), Who: "ben", Reason: "INC-1"} }, []string{"next: At 12:00:01 UTC the snooze ends"}},
		"snoozed, after all":             {unknown, func(r *Record) { r.Snooze = &Snooze{Until: at(time.Hour), Who: "ben", Reason: "INC-1"} }, []string{"runs, once.\nAt 13:00:00 UTC the snooze ends"}},
		"snoozed, and it stays":          {unknown, func(r *Record) { stays(r); r.Snooze = &Snooze{Until: at(time.Hour)} }, []string{"next: It stays as it is. Only a person ends it, and until then clients are answered the same.\nAt 13:00:00 UTC the snooze ends"}},
		"snoozed before":                 {unknown, func(r *Record) { r.Snooze = &Snooze{Until: now} }, []string{"!snooze"}},
		"with a person":                  {unknown, func(r *Record) { r.With = &Handover{To: "anna", Who: "ben", Note: "she knows the bank", At: now} }, []string{"It is with anna since 12:00:00 UTC, by ben: “she knows the bank”\n"}},
		"with a person, without a note":  {unknown, func(r *Record) { r.With = &Handover{To: "anna", Who: "ben", At: now} }, []string{"by ben.\n"}},
		"mismatch": {done, func(r *Record) { r.Mismatch = &Mismatch{At: at(-time.Second), Count: 2} },
			[]string{"2 requests came with this key and another content, the last at 11:59:59 UTC.\n", "!No client"}},
		"asked":             {unknown, func(r *Record) { r.Asking = &Asking{Count: 19, LastAt: at(-time.Second)} }, []string{"Clients have asked 19 times so far, last at 11:59:59 UTC.\n", "!at least"}},
		"asked, or more":    {unknown, func(r *Record) { r.Asking = &Asking{Count: 1, LastAt: now, More: true} }, []string{"Clients have asked at least once so far"}},
		"asking, not known": {unknown, func(r *Record) { r.Asking = &Asking{More: true} }, []string{"It is not known whether clients ask.\n", "!No client"}},
		"double effect":     {done, func(r *Record) { r.Cause = "double-effect" }, []string{"known: It had its effect twice.\nAn earlier execution had its effect, and the key was executed again. Undo one, and write down which.\nIt happened,"}},
		"double effect, unknown": {unknown, func(r *Record) { r.Cause = "double-effect" },
			[]string{"known: It had its effect twice.\nAn earlier execution had its effect, and the key was executed again. Undo one, and write down which.\nIt began at"}},
	} {
		r := c.of
		o := *r.Outlook
		r.Outlook = &o
		if r.Probe != nil {
			p := *r.Probe
			r.Probe = &p
		}
		if r.ResponseBytes != nil {
			n := *r.ResponseBytes
			r.ResponseBytes = &n
		}
		if c.change != nil {
			c.change(&r)
		}
		got := said(explain(&r, now))
		for _, w := range c.want {
			not, absent := strings.CutPrefix(w, "!")
			if strings.Contains(got, not) == absent {
				t.Errorf("%s: %q, absent is %v:\n%s", name, not, absent, got)
			}
		}
	}
}

// What each probe was answered has words, and so has each cause that is counted.
func TestWords(t *testing.T) {
	if got := CauseText("lease-lapsed", 2); got != "the gateway died while they ran" || CauseText("new-word", 2) != "new-word" {
		t.Errorf("%q", got)
	}
	for _, found := range []string{"pending", "happened", "missing", "voided", "goes-on", reconcile.Silent} {
		if FindingText(found) == "" || (&ProbeAnswer{Found: found}).Text() == found {
			t.Errorf("%s has no words", found)
		}
	}
	for want, a := range map[string]*ProbeAnswer{"not asked yet": nil, "neither yes nor no (202)": {Found: "pending", Status: 202}, "no answer": {Found: "silent", Status: 503}, "new-word (1)": {Found: "new-word", Status: 1}} {
		if a.Text() != want {
			t.Errorf("%q, not %q", a.Text(), want)
		}
	}
}
