package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/stet-dev/stet"
)

type keysCmds struct {
	List keysListCmd `cmd:"" help:"List records."`
	Show keysShowCmd `cmd:"" help:"Show one record."`

	Resolve keysResolveCmd `cmd:"" help:"Say what became of an execution whose outcome is unknown."`
	Release keysReleaseCmd `cmd:"" help:"Say that unknown executions did not happen: one retry may run."`
	Delete  keysDeleteCmd  `cmd:"" help:"Drop stored results, so that their keys are free again."`
}

// record is what a record's document is read for; --json prints the document itself.
type record struct {
	ID, Scope, State, Route, Method, Path, Point, Cause, Owner string
	Attempt, Status, Probes                                    int
	Version                                                    json.RawMessage
	ResponseBytes                                              int64   `json:"response_bytes"`
	TookMS                                                     float64 `json:"took_ms"`
	TraceID                                                    string  `json:"trace_id"`
	Escalated                                                  bool
	CreatedAt                                                  time.Time `json:"created_at"`
	UpdatedAt                                                  time.Time `json:"updated_at"`
	CompletedAt                                                time.Time `json:"completed_at"`
	DueAt                                                      time.Time `json:"due_at"`
	ExpiresAt                                                  time.Time `json:"expires_at"`
	Key                                                        string
	Response                                                   *struct {
		Status  int
		Headers map[string][]string
		Body    string `json:"body_b64"`
	}
}

type keysListCmd struct {
	source
	State     string        `placeholder:"STATE" complete:"running,completed,failed,retryable,unknown,expired" help:"running, completed, failed, retryable, unknown or expired."`
	Scope     string        `placeholder:"SCOPE" help:"Only this scope."`
	Route     string        `placeholder:"ROUTE" help:"Only this route, such as 'POST /v1/payments'."`
	OlderThan time.Duration `placeholder:"15m" help:"Only records that were created at least so long ago."`
	Limit     int           `default:"100" help:"At most so many."`
	Cursor    string        `help:"Go on where a list with a next_cursor ended."`
	JSON      bool          `name:"json" help:"Print the API's document."`
}

// listing is the document of GET /api/v1/keys.
type listing struct {
	Keys []json.RawMessage `json:"keys"`
	Next string            `json:"next_cursor"`
}

func (c *keysListCmd) Run(w *world) error {
	if c.Limit < 1 {
		return failf(exitUsage, "--limit is %d; at least one record", c.Limit)
	}
	a, err := c.open(w)
	if err != nil {
		return err
	}
	defer a.close()
	all := listing{Keys: []json.RawMessage{}, Next: c.Cursor}
	for {
		var page listing
		if err := a.get(w.ctx, "/api/v1/keys?"+c.query(all.Next, c.Limit-len(all.Keys)), &page); err != nil {
			return err
		}
		all.Keys, all.Next = append(all.Keys, page.Keys...), page.Next
		if len(all.Keys) >= c.Limit || page.Next == "" {
			break
		}
	}
	if c.JSON {
		return writeJSON(w.stdout, all)
	}
	return c.table(w, &all)
}

func (c *keysListCmd) query(cursor string, limit int) string {
	q := url.Values{"limit": {strconv.Itoa(min(limit, stet.MaxLimit))}}
	for name, v := range map[string]string{"state": c.State, "scope": c.Scope, "route": c.Route, "cursor": cursor} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if c.OlderThan > 0 {
		q.Set("older_than_s", strconv.FormatInt(int64(c.OlderThan/time.Second), 10))
	}
	return q.Encode()
}

func (c *keysListCmd) table(w *world, all *listing) error {
	if len(all.Keys) == 0 {
		fmt.Fprintln(w.stderr, "no records match")
		return nil
	}
	t := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tSTATUS\tATTEMPT\tCREATED\tSCOPE\tROUTE\tCAUSE")
	for _, doc := range all.Keys {
		var r record
		if err := json.Unmarshal(doc, &r); err != nil {
			return fmt.Errorf("a record cannot be read: %w", err)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", r.ID, r.State, number(r.Status), r.Attempt, instant(r.CreatedAt),
			visible(r.Scope), visible(r.Route), orDash(r.Cause))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if all.Next != "" {
		fmt.Fprintf(w.stderr, "there are more: --cursor %s\n", all.Next)
	}
	return nil
}

type keysShowCmd struct {
	source
	Key    string `arg:"" help:"The key as parsed, without quotes, or the record's id (k_…)."`
	Scope  string `placeholder:"SCOPE" default:"default" help:"The scope it is in (default)."`
	Reveal bool   `help:"Show the key and the stored response too."`
	JSON   bool   `name:"json" help:"Print the API's document."`
}

func (c *keysShowCmd) Run(w *world) error {
	a, err := c.open(w)
	if err != nil {
		return err
	}
	defer a.close()
	path := "/api/v1/keys/" + segment(c.Scope) + "/" + segment(c.Key)
	if c.Reveal {
		path += "?reveal=1"
	}
	var doc json.RawMessage
	if err := a.get(w.ctx, path, &doc); err != nil {
		if exitOf(err) == exitNotFound && strings.HasPrefix(c.Key, `"`) {
			err = failf(exitNotFound, "%w; a quoted key is named without its quotes", err)
		}
		return err
	}
	if c.JSON {
		return writeJSON(w.stdout, doc)
	}
	var r record
	if err := json.Unmarshal(doc, &r); err != nil {
		return fmt.Errorf("the record cannot be read: %w", err)
	}
	return r.show(w.stdout)
}

// show prints what there is, a line each.
func (r *record) show(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, l := range []struct{ name, value string }{
		{"id", r.ID}, {"key", visible(r.Key)}, {"scope", visible(r.Scope)}, {"state", r.State}, {"cause", r.Cause}, {"attempt", number(r.Attempt)},
		{"route", visible(r.Route)}, {"method", visible(r.Method)}, {"path", visible(r.Path)}, {"status", number(r.Status)},
		{"response bytes", number(int(r.ResponseBytes))}, {"point", r.Point}, {"owner", r.Owner}, {"probes", number(r.Probes)},
		{"took", took(r.TookMS)}, {"trace", visible(r.TraceID)},
		{"created", instant(r.CreatedAt)}, {"updated", instant(r.UpdatedAt)}, {"completed", instant(r.CompletedAt)},
		{"due", instant(r.DueAt)}, {"expires", instant(r.ExpiresAt)},
	} {
		if l.value != "" && l.value != "-" {
			fmt.Fprintf(t, "%s\t%s\n", l.name, l.value)
		}
	}
	if err := t.Flush(); err != nil || r.Response == nil {
		return err
	}
	return r.response(out)
}

// response prints the stored response as a client gets it.
func (r *record) response(out io.Writer) error {
	body, err := base64.StdEncoding.DecodeString(r.Response.Body)
	if err != nil {
		return fmt.Errorf("the stored body cannot be read: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%d\n", r.Response.Status)
	for _, name := range sortedKeys(r.Response.Headers) {
		for _, v := range r.Response.Headers[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, visible(v))
		}
	}
	b.WriteByte('\n')
	if utf8.Valid(body) && !bytes.ContainsFunc(body, func(c rune) bool { return c < ' ' && c != '\n' && c != '\r' && c != '\t' }) {
		b.Write(body)
		if !bytes.HasSuffix(body, []byte("\n")) {
			b.WriteByte('\n')
		}
	} else {
		fmt.Fprintf(&b, "%d bytes, not text; --json has them as base64\n", len(body))
	}
	_, err = out.Write(b.Bytes())
	return err
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
