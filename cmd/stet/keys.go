package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/internal/rest"
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
	"dead":   func(r *operate.Record) any { return ifTrue(r.Escalated, "dead") },
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
	path := adminclient.RecordPath(c.name()) + ifTrue(c.Reveal, adminclient.Revealing(c.Reason))
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
		"probes", number(r.Probes), "dead letter", ifTrue(r.Escalated, deadLetter), "took", took(r.TookMS), "trace", r.TraceID,
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
			ifTrue(byID && r.Key == "", ", for the key that stet keys show "+id+" --reveal --reason TEXT prints") +
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

// ifTrue is a text if something is so, or nothing.
func ifTrue(so bool, text string) string {
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

func took(ms float64) string { return ifTrue(ms != 0, strconv.FormatFloat(ms, 'f', -1, 64)+" ms") }

func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

type keysFindCmd struct {
	source
	Name  string `arg:"" help:"An id (k_…), a key, a trace id, or the key or id that a downstream system knows the effect by."`
	Scope string `placeholder:"SCOPE" help:"Only in this scope."`
	printed
}

// check implements [checked].
func (c *keysFindCmd) check(*world) error { return foundList.check(&c.printed) }

func (c *keysFindCmd) Run(w *world, a *api) error {
	path := adminclient.FindPath(c.Name, c.Scope)
	s, err := shown(w, a, path, c.JSON, func(s *operate.Search, w *world) error {
		if len(s.Found) == 0 {
			return nil
		}
		return foundList.rows(w, s.Found, &c.printed)
	})
	if err != nil {
		return err
	}
	if len(s.Skipped) > 0 {
		fmt.Fprintf(w.stderr, "stet: not searched: %s; your role, or the store, does not allow it\n",
			visible(strings.Join(s.Skipped, ", ")))
	}
	if s.More {
		fmt.Fprintln(w.stderr,
			"stet: there may be more: the search ended before it had looked through all records; --scope narrows it")
	}
	if len(s.Found) == 0 {
		return failf(exitNotFound, "no record was found that has it as its key, id, trace, downstream key or provider's id; "+
			"stet keys list --help shows other filters")
	}
	return nil
}

// foundList are the columns of records, and by what each was found.
var foundList = list[operate.Found]{"found",
	append([]column[operate.Found]{{"by", func(f *operate.Found) any { return f.By }}},
		each(keysList.columns, func(c *column[operate.Record]) column[operate.Found] {
			return column[operate.Found]{c.name, func(f *operate.Found) any { return c.of(&f.Key) }}
		})...), keysList.usual + 1}

type keysExportCmd struct {
	source
	sorted
}

func (c *keysExportCmd) Run(w *world, a *api) error { return export(w, a, a.Keys(c.query()).Raw()) }

// export prints each page as it comes, so that it needs no more memory than one page.
func export(w *world, a *api, all adminclient.List[json.RawMessage]) error {
	n := 0
	for doc, err := range all.All(w.ctx) {
		if err != nil {
			return fmt.Errorf("after %d lines, and not complete: %w", n, a.explainError(err))
		}
		if err := writeLine(w.stdout, doc); err != nil {
			return err
		}
		n++
	}
	fmt.Fprintf(w.stderr, "exported %d\n", n)
	return nil
}

// writeLine prints a document on a line of its own.
func writeLine(out io.Writer, doc json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Compact(&b, doc); err != nil {
		return fmt.Errorf("a record cannot be read: %w", err)
	}
	b.WriteByte('\n')
	_, err := out.Write(b.Bytes())
	return err
}

type keysTailCmd struct {
	source
	filter
	Every time.Duration `default:"1s" least:"100ms" help:"Interval between two looks."`
	JSON  bool          `name:"json" help:"Print records as JSON, one per line."`
}

func (c *keysTailCmd) Run(w *world, a *api) error {
	seen, err := c.look(w, a, nil)
	for err == nil && rest.For(w.ctx, c.Every) {
		seen, err = c.look(w, a, seen)
	}
	if w.ctx.Err() != nil { // Ctrl-C
		return nil
	}
	return err
}

// window is what one look has seen: the newest records.
type window struct {
	versions map[string]uint64 // by id
	oldest   time.Time         // when the first of them was created
	more     bool              // there were older ones
}

// covers reports whether a record was in the window, or was too old for it.
func (v *window) covers(r *record) bool {
	_, has := v.versions[r.ID]
	return has || v.more && !r.CreatedAt.After(v.oldest)
}

// look prints what is new or changed since the look before, the oldest first, and returns what it
// has seen. The first look has no look before it, and prints nothing. Older records that come into
// the window because others were removed have not changed.
func (c *keysTailCmd) look(w *world, a *api, before *window) (*window, error) {
	docs, next, err := a.Keys(c.query()).Raw().Take(w.ctx, "", stet.MaxLimit)
	if err != nil {
		return nil, err
	}
	now, fresh := &window{versions: map[string]uint64{}, more: next != ""}, 0
	for _, doc := range slices.Backward(docs) {
		var r record
		if err := json.Unmarshal(doc, &r); err != nil {
			return nil, fmt.Errorf("a record cannot be read: %w", err)
		}
		if len(now.versions) == 0 {
			now.oldest = r.CreatedAt
		}
		now.versions[r.ID] = r.Version
		if before == nil {
			continue
		}
		known := before.covers(&r)
		if !known {
			fresh++
		}
		if version, has := before.versions[r.ID]; has && version != r.Version || !known {
			if err := c.print(w, &r, doc); err != nil {
				return nil, err
			}
		}
	}
	if now.more && fresh == len(docs) {
		fmt.Fprintf(w.stderr, "stet: all of the newest %d records came since the last look, and there may have been more; "+
			"look more often (--every), or narrow the filter\n", fresh)
	}
	return now, nil
}

func (c *keysTailCmd) print(w *world, r *record, doc json.RawMessage) error {
	if c.JSON {
		return writeLine(w.stdout, doc)
	}
	return w.printf("%s  %s  %-9s  %s  %d  %s  %s  %s\n", instant(r.UpdatedAt), visible(r.ID), visible(r.State),
		number(r.Status), r.Attempt, visible(r.Scope), visible(r.Route), visible(r.Cause))
}
