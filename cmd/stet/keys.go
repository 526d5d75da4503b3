package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/operate"
)

type keysCmds struct {
	List   keysListCmd   `cmd:"" help:"List records."`
	Show   keysShowCmd   `cmd:"" help:"Show one record."`
	Find   keysFindCmd   `cmd:"" help:"Find records by id, key, or the name that a downstream system has for them."`
	Tail   keysTailCmd   `cmd:"" help:"Print new and changed records until Ctrl-C."`
	Export keysExportCmd `cmd:"" help:"Print all matching records, one JSON document per line."`

	Resolve keysResolveCmd `cmd:"" help:"State what became of an execution whose outcome is unknown."`
	Release keysReleaseCmd `cmd:"" help:"State that unknown executions did not happen: one retry of each may run."`
	Delete  keysDeleteCmd  `cmd:"" help:"Delete stored results, so that their keys can be used again."`
	Probe   keysProbeCmd   `cmd:"" help:"Ask the upstream now what became of an execution whose outcome is unknown."`
	Extend  keysExtendCmd  `cmd:"" help:"Keep a stored result longer."`
	Snooze  keysSnoozeCmd  `cmd:"" help:"Take an unknown record out of lists and alerts for a while."`
	Hand    keysHandCmd    `cmd:"" help:"Hand a record to a colleague."`
	Note    keysNoteCmd    `cmd:"" help:"Add a note about a record to the audit trail."`
	Bulk    bulkCmds       `cmd:"" help:"Change many records by a job, and look after jobs."`
}

// record is what a record's document is read for; --json prints the document itself.
type record operate.Record

// filter selects records.
type filter struct {
	State     string        `placeholder:"STATE" complete:"running,completed,failed,retryable,unknown,expired" help:"running, completed, failed, retryable, unknown or expired."`
	Scope     string        `placeholder:"SCOPE" help:"Only this scope."`
	Route     string        `placeholder:"ROUTE" help:"Only this route, such as 'POST /v1/payments'."`
	Path      string        `placeholder:"PATH" help:"Only requests with this path."`
	Method    string        `placeholder:"METHOD" help:"Only requests with this method."`
	Cause     string        `placeholder:"CAUSE" help:"Only records that ended for this cause, such as upstream-failed."`
	Trace     string        `placeholder:"TRACE" help:"Only records of this trace."`
	Dead      bool          `help:"Only dead letters: unknown outcomes that all probes left unknown."`
	OlderThan time.Duration `placeholder:"15m" help:"Only records older than this."`
}

// query is the filter, as the API takes it.
func (f *filter) query() operate.RecordQuery {
	return operate.RecordQuery{Filter: operate.Filter{State: f.State, Scope: stet.Scope(f.Scope), Route: f.Route,
		Path: f.Path, Method: f.Method, Cause: f.Cause, Trace: f.Trace, Escalated: f.Dead, OlderThan: f.OlderThan.Seconds()}}
}

// sorted is a filter with an order.
type sorted struct {
	filter
	Oldest bool `help:"List the oldest first."`
}

func (s *sorted) query() operate.RecordQuery {
	q := s.filter.query()
	if s.Oldest {
		q.Sort = "oldest"
	}
	return q
}

type keysListCmd struct {
	source
	sorted
	paged
}

// check implements [checked].
func (c *keysListCmd) check(*world) error { return keysList.check(&c.printed) }

func (c *keysListCmd) Run(w *world, a *api) error {
	return keysList.print(w, a.Keys(c.query()), &c.paged, noRecords)
}

const noRecords = "no records match"

var keysList = listOf("keys", 9, recordColumns, ofRecord)

const recordColumns = "id state status attempt created scope route cause dead updated completed due expires method " +
	"path owner probes took trace version basis"

// ofRecord are the columns of records that are not as in the document, also those of [memberList].
var ofRecord = map[string]func(*operate.Record) any{
	"status": func(r *operate.Record) any { return number(r.Status) },
	"dead":   func(r *operate.Record) any { return given(r.Escalated, "dead") },
	"took":   func(r *operate.Record) any { return took(r.TookMS) },
	"asked":  func(r *operate.Record) any { return askers(r.Asking) },
}

type keysShowCmd struct {
	source
	named
	Reveal bool   `help:"Also show the key and the stored response; that is kept in the audit trail."`
	Reason string `placeholder:"TEXT" help:"With --reveal: the reason for the audit trail."`
	JSON   bool   `name:"json" help:"Print the API's document."`
}

func (c *keysShowCmd) Run(w *world, a *api) error {
	path := adminclient.RecordPath(c.name()) + given(c.Reveal, adminclient.Revealing(c.Reason))
	_, err := shown(w, a, path, c.JSON, func(r *record, w *world) error {
		if err := r.show(w); err != nil || r.State != "unknown" {
			return err
		}
		return w.printf("\nnext: %s\n", r.next(c.lookAt(), c.byID()))
	})
	return c.missing(err)
}

// shown returns the document of a path, which it prints as it is, or as show does.
func shown[T any](w *world, a *api, path string, asJSON bool, show func(*T, *world) error) (v T, err error) {
	var doc json.RawMessage
	if err := a.Get(w.ctx, path, &doc); err != nil {
		return v, err
	}
	if asJSON { // before it is read here: a gateway of another version may say more
		_ = writeJSON(w.stdout, doc)
	}
	if err := json.Unmarshal(doc, &v); err != nil {
		return v, fmt.Errorf("the answer cannot be read: %w", err)
	}
	if asJSON {
		return v, nil
	}
	return v, show(&v, w)
}

// show prints what there is, a line each.
func (r *record) show(w *world) error {
	_ = pairs(w.stdout, "id", r.ID, "key", r.Key, "scope", r.Scope, "state", r.State, "cause", r.Cause,
		"attempt", number(r.Attempt), "route", r.Route, "method", r.Method, "path", r.Path, "status", number(r.Status),
		"response bytes", number(int(valueOf(r.ResponseBytes))), "point", r.Point, "owner", r.Owner,
		"probes", number(r.Probes), "dead letter", given(r.Escalated, deadLetter), "took", took(r.TookMS), "trace", r.TraceID,
		"created", w.when(r.CreatedAt), "updated", w.when(r.UpdatedAt), "completed", w.when(r.CompletedAt),
		"due", w.when(r.DueAt), "expires", w.when(r.ExpiresAt))
	err := pairs(w.stdout, r.around(w)...)
	if r.Response != nil {
		_, err = w.stdout.Write(response(r.Response))
	}
	return err
}

// next are the commands that fit an unknown record best. An answer is more than its status: without
// header and body, retries would get an empty one. The provider is asked by the key, which a record
// that was named by its id hides.
func (r *record) next(where string, byID bool) string {
	id := visible(r.ID) + where
	completed := "stet keys resolve " + id +
		" --completed --status N --header 'Content-Type: TYPE' --body @FILE --reason TEXT"
	switch {
	case r.Late != nil:
		return "stet keys resolve " + id + " --as late-answer --reason TEXT"
	case r.Outlook != nil && r.Outlook.Release != nil && r.Outlook.Release.Many:
		return "stet keys release " + id + " --reason TEXT, if nothing happened; " + completed + ", if it did"
	case r.Outlook != nil && r.Outlook.Release != nil && r.Outlook.Release.May: // what may have happened is not suggested to be freed first
		return "look at the provider's own records" +
			given(byID && r.Key == "", ", for the key that stet keys show "+id+" --reveal --reason TEXT prints") +
			"; then " + completed + ", if it happened; stet keys release " + id + " --reason TEXT, if it did not"
	}
	return "stet keys probe " + id + "; or " + completed + ", if you know that it happened"
}

// deadLetter is what can be done about one.
const deadLetter = "yes: it is not probed any more; stet keys probe asks again, stet keys resolve ends it"

// response is the stored response as a client gets it.
func response(r *operate.Response) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%d\n", r.Status)
	for _, name := range sortedKeys(r.Headers) {
		for _, v := range r.Headers[name] {
			fmt.Fprintf(&b, "%s: %s\n", visible(name), visible(v))
		}
	}
	b.WriteByte('\n')
	if utf8.Valid(r.Body) && !bytes.ContainsFunc(r.Body,
		func(c rune) bool { return c < ' ' && c != '\n' && c != '\r' && c != '\t' }) {
		b.Write(r.Body)
		if !bytes.HasSuffix(r.Body, []byte("\n")) {
			b.WriteByte('\n')
		}
	} else {
		fmt.Fprintf(&b, "%d bytes, not text; --json has them as base64\n", len(r.Body))
	}
	return b.Bytes()
}

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// visible keeps a client's text from steering the terminal.
func visible(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		s = strings.Trim(strconv.Quote(s), `"`)
	}
	return cmp.Or(s, "-")
}

// given is a text if something is so, or nothing.
func given(so bool, text string) string {
	if so {
		return text
	}
	return ""
}

// valueOf is what a pointer points to; zero if it is nil.
func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func took(ms float64) string { return given(ms != 0, strconv.FormatFloat(ms, 'f', -1, 64)+" ms") }

func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
