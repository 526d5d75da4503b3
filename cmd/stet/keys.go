package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stet-dev/stet/admin"
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
	Note    keysNoteCmd    `cmd:"" help:"Add a note about a record to the audit trail."`
	Bulk    keysBulkCmd    `cmd:"" help:"Show the jobs that change many records."`
}

// record is what a record's document is read for; --json prints the document itself.
type record struct{ admin.Record }

// filter selects records.
type filter struct {
	State     string        `placeholder:"STATE" complete:"running,completed,failed,retryable,unknown,expired" help:"running, completed, failed, retryable, unknown or expired."`
	Scope     string        `placeholder:"SCOPE" help:"Only this scope."`
	Route     string        `placeholder:"ROUTE" help:"Only this route, such as 'POST /v1/payments'."`
	Path      string        `placeholder:"PATH" help:"Only requests with this path."`
	Method    string        `placeholder:"METHOD" help:"Only requests with this method."`
	Cause     string        `placeholder:"CAUSE" help:"Only records that ended for this cause, such as upstream-failed."`
	Trace     string        `placeholder:"ID" help:"Only records of this trace."`
	Dead      bool          `help:"Only dead letters: unknown outcomes that all probes left unknown."`
	OlderThan time.Duration `placeholder:"15m" help:"Only records older than this."`
}

// parameters are the filter by the names of the API.
func (f *filter) parameters() map[string]string {
	all := map[string]string{"state": f.State, "scope": f.Scope, "route": f.Route, "path": f.Path, "method": f.Method, "cause": f.Cause, "trace": f.Trace}
	if f.Dead {
		all["escalated"] = "1"
	}
	if f.OlderThan > 0 {
		all["older_than_s"] = strconv.FormatFloat(f.OlderThan.Seconds(), 'f', -1, 64)
	}
	maps.DeleteFunc(all, func(_, v string) bool { return v == "" })
	return all
}

// query is the filter, as the API's lists take it.
func (f *filter) query() url.Values {
	q := url.Values{}
	for name, v := range f.parameters() {
		set(q, name, v)
	}
	return q
}

// sorted is a filter with an order.
type sorted struct {
	filter
	Oldest bool `help:"List the oldest first."`
}

func (s *sorted) query() url.Values {
	q := s.filter.query()
	if s.Oldest {
		q.Set("sort", "oldest")
	}
	return q
}

type keysListCmd struct {
	source
	sorted
	paged
}

func (c *keysListCmd) Run(w *world, a *api) error {
	return keysList.print(w, a, c.query(), c.paged, noRecords)
}

const noRecords = "no records match"

var keysList = list{"/api/v1/keys", "keys", "ID\tSTATE\tSTATUS\tATTEMPT\tCREATED\tSCOPE\tROUTE\tCAUSE\tDEAD", func(doc json.RawMessage) (string, error) {
	var r record
	err := json.Unmarshal(doc, &r)
	return cells(r.ID, r.State, number(r.Status), r.Attempt, instant(r.CreatedAt), visible(r.Scope), visible(r.Route), orDash(r.Cause), r.dead()), err
}}

// dead says of a dead letter that it is one.
func (r *record) dead() string {
	if r.Escalated {
		return "dead"
	}
	return "-"
}

type keysShowCmd struct {
	source
	named
	Reveal bool `help:"Also show the key and the stored response; that is kept in the audit trail."`
	JSON   bool `name:"json" help:"Print the API's document."`
}

func (c *keysShowCmd) Run(w *world, a *api) error {
	path := c.path()
	if c.Reveal {
		path += "?reveal=1"
	}
	return c.missing(shown(w, a, path, c.JSON, (*record).show))
}

// shown prints the document of a path as it is, or as show does.
func shown[T any](w *world, a *api, path string, asJSON bool, show func(*T, io.Writer) error) error {
	var doc json.RawMessage
	if err := a.get(w.ctx, path, &doc); err != nil {
		return err
	}
	if asJSON {
		return writeJSON(w.stdout, doc)
	}
	var v T
	if err := json.Unmarshal(doc, &v); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	return show(&v, w.stdout)
}

// show prints what there is, a line each.
func (r *record) show(out io.Writer) error {
	size := ""
	if r.ResponseBytes != nil {
		size = number(int(*r.ResponseBytes))
	}
	err := pairs(out, "id", r.ID, "key", visible(r.Key), "scope", visible(r.Scope), "state", r.State, "cause", r.Cause, "attempt", number(r.Attempt),
		"route", visible(r.Route), "method", visible(r.Method), "path", visible(r.Path), "status", number(r.Status),
		"response bytes", size, "point", r.Point, "owner", r.Owner, "probes", number(r.Probes), "dead letter", r.deadLetter(),
		"took", took(r.TookMS), "trace", visible(r.TraceID), "created", instant(r.CreatedAt), "updated", instant(r.UpdatedAt),
		"completed", instant(r.CompletedAt), "due", instant(r.DueAt), "expires", instant(r.ExpiresAt))
	if err != nil || r.Response == nil {
		return err
	}
	_, err = out.Write(response(r.Response))
	return err
}

// deadLetter says what can be done about one.
func (r *record) deadLetter() string {
	if !r.Escalated {
		return ""
	}
	return "yes: it is not probed any more; stet keys probe asks again, stet keys resolve ends it"
}

// response is the stored response as a client gets it.
func response(r *admin.Response) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%d\n", r.Status)
	for _, name := range sortedKeys(r.Headers) {
		for _, v := range r.Headers[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, visible(v))
		}
	}
	b.WriteByte('\n')
	if utf8.Valid(r.Body) && !bytes.ContainsFunc(r.Body, func(c rune) bool { return c < ' ' && c != '\n' && c != '\r' && c != '\t' }) {
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
	return orDash(s)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func took(ms float64) string {
	if ms == 0 {
		return ""
	}
	return strconv.FormatFloat(ms, 'f', -1, 64) + " ms"
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
