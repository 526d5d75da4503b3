package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/stet-dev/stet"
)

// change is what every command that changes records needs.
type change struct {
	Reason string `placeholder:"TEXT" help:"Why; it is kept in the audit trail."`
	Yes    bool   `help:"Do not ask. Needed where nobody can be asked."`
	JSON   bool   `name:"json" help:"Print {\"changed\": N}."`
}

// check implements [checked].
func (c *change) check(*world) error {
	if strings.TrimSpace(c.Reason) == "" {
		return failf(exitUsage, "a change needs --reason TEXT: it is kept in the audit trail")
	}
	if !c.Yes && !isTerminal(os.Stdin) {
		return failf(exitUsage, "give --yes: a change is asked about first, and nobody can be asked here")
	}
	return nil
}

// sure asks, unless --yes was given. what says what is about to happen.
func (c *change) sure(w *world, what string) error {
	if c.Yes {
		return nil
	}
	fmt.Fprintf(w.stderr, "%s? [y/N] ", what)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return failf(exitUsage, "nothing was changed")
	}
	return nil
}

// isTerminal reports whether somebody sits at f: /dev/null is a device of characters, too, and nobody does.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func (c *change) done(w *world, n int) error {
	if c.JSON {
		return writeJSON(w.stdout, map[string]int{"changed": n})
	}
	_, err := fmt.Fprintf(w.stdout, "changed %d\n", n)
	return err
}

// sent is the body of a change.
type sent struct {
	Outcome  string              `json:"outcome,omitempty"`
	Status   int                 `json:"status,omitempty"`
	Headers  map[string][]string `json:"headers,omitempty"`
	Body     []byte              `json:"body_b64,omitempty"`
	Evidence string              `json:"evidence,omitempty"`
	Reason   string              `json:"reason"`
	Override bool                `json:"override,omitempty"`
}

type keysResolveCmd struct {
	source
	change
	Key         string   `arg:"" help:"The key as parsed, without quotes, or the record's id (k_…)."`
	Scope       string   `placeholder:"SCOPE" default:"default" help:"The scope it is in (default)."`
	Completed   bool     `help:"It happened: retries get --status, --header and --body."`
	NotExecuted bool     `help:"It did not happen: one retry may run. The same as release."`
	Status      int      `placeholder:"N" help:"With --completed: the status retries get."`
	Header      []string `placeholder:"'N: V'" sep:"none" help:"With --completed: a header retries get; may be repeated."`
	Body        string   `placeholder:"TEXT" help:"With --completed: the body retries get; @FILE reads it."`
	Evidence    string   `placeholder:"TEXT" help:"What shows it, such as the provider's id."`
	Override    bool     `help:"With --not-executed: also against a late answer of the handler, or while it has not returned."`
}

func (c *keysResolveCmd) Run(w *world) error {
	doc, err := c.document()
	if err != nil {
		return err
	}
	what := fmt.Sprintf("resolve %s as %s", visible(c.Key), doc.Outcome)
	if err := c.sure(w, what); err != nil {
		return err
	}
	a, err := c.open(w)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.do(w.ctx, http.MethodPost, recordPath(c.Scope, c.Key)+"/resolve", doc, nil); err != nil {
		return err
	}
	return c.done(w, 1)
}

func (c *keysResolveCmd) document() (sent, error) {
	doc := sent{Outcome: "not-executed", Evidence: c.Evidence, Reason: c.Reason, Override: c.Override}
	switch {
	case c.Completed == c.NotExecuted:
		return doc, failf(exitUsage, "what became of it? give --completed with --status N, or --not-executed")
	case c.Completed && c.Override:
		return doc, failf(exitUsage, "--override frees a key against what its record says, and belongs to --not-executed")
	case c.NotExecuted && (c.Status != 0 || c.Header != nil || c.Body != ""):
		return doc, failf(exitUsage, "--status, --header and --body are of an answer, and belong to --completed")
	case c.NotExecuted:
		return doc, nil
	case c.Status < 200 || c.Status > 599:
		return doc, failf(exitUsage, "--status has to be the status that retries get, 200 to 599")
	}
	doc.Outcome, doc.Status = "completed", c.Status
	for _, line := range c.Header {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return doc, failf(exitUsage, "--header %q is none: give 'Name: value'", line)
		}
		if doc.Headers == nil {
			doc.Headers = map[string][]string{}
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		doc.Headers[name] = append(doc.Headers[name], strings.TrimSpace(value))
	}
	doc.Body = []byte(c.Body)
	if file, ok := strings.CutPrefix(c.Body, "@"); ok {
		var err error
		if doc.Body, err = os.ReadFile(file); err != nil {
			return doc, failf(exitUsage, "--body: %w", err)
		}
	}
	return doc, nil
}

func recordPath(scope, key string) string {
	return "/api/v1/keys/" + segment(scope) + "/" + segment(key)
}

// chosen selects the records of a change: one by name, or those that match a filter.
type chosen struct {
	source
	change
	Key       string        `arg:"" optional:"" help:"The key as parsed, without quotes, or the record's id (k_…). Without one the filter chooses."`
	Scope     string        `placeholder:"SCOPE" help:"The scope the key is in (default), or only this scope."`
	State     string        `placeholder:"STATE" complete:"completed,failed,retryable,unknown,expired" help:"Only records in this state."`
	Route     string        `placeholder:"ROUTE" help:"Only this route, such as 'POST /v1/payments'."`
	OlderThan time.Duration `placeholder:"15m" help:"Only records that were created at least so long ago."`
	Limit     int           `default:"100" help:"At most so many."`
}

// check implements [checked].
func (c *chosen) check(*world) error {
	filtered := c.State != "" || c.Route != "" || c.OlderThan > 0
	switch {
	case c.Key != "" && filtered:
		return failf(exitUsage, "KEY names one record, and --state, --route and --older-than choose several; give one of them")
	case c.Key == "" && !filtered && c.Scope == "":
		return failf(exitUsage, "which records? give KEY, or a filter: --state, --scope, --route, --older-than")
	case c.Limit < 1:
		return failf(exitUsage, "--limit is %d; at least one record", c.Limit)
	}
	return nil
}

// each changes the chosen records one by one, and says how many were. verb is for people.
func (c *chosen) each(w *world, verb string, act func(a *api, scope, name string) error) error {
	a, err := c.open(w)
	if err != nil {
		return err
	}
	defer a.close()
	if c.Key != "" {
		if c.Scope == "" {
			c.Scope = "default"
		}
		if err := c.sure(w, verb+" "+visible(c.Key)); err != nil {
			return err
		}
		if err := act(a, c.Scope, c.Key); err != nil {
			return err
		}
		return c.done(w, 1)
	}
	found, err := c.find(w, a)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		fmt.Fprintln(w.stderr, "no records match")
		return c.done(w, 0)
	}
	if err := c.sure(w, fmt.Sprintf("%s %d records", verb, len(found))); err != nil {
		return err
	}
	n := 0
	for _, r := range found {
		if err := act(a, r.Scope, r.ID); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", r.ID, err), c.done(w, n))
		}
		n++
	}
	return c.done(w, n)
}

func (c *chosen) find(w *world, a *api) (found []record, err error) {
	list := keysListCmd{State: c.State, Scope: c.Scope, Route: c.Route, OlderThan: c.OlderThan}
	cursor := ""
	for len(found) < c.Limit {
		var page listing
		if err := a.get(w.ctx, "/api/v1/keys?"+list.query(cursor, c.Limit-len(found)), &page); err != nil {
			return nil, err
		}
		for _, doc := range page.Keys {
			var r record
			if err := json.Unmarshal(doc, &r); err != nil {
				return nil, fmt.Errorf("a record cannot be read: %w", err)
			}
			found = append(found, r)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	return found, nil
}

type keysReleaseCmd struct {
	chosen
	Evidence string `placeholder:"TEXT" help:"What shows it."`
	Override bool   `help:"Also against a late answer of the handler, or while it has not returned."`
}

func (c *keysReleaseCmd) Run(w *world) error {
	if c.Key == "" && c.State == "" && (c.Scope != "" || c.Route != "" || c.OlderThan > 0) {
		c.State = stet.Unknown.String() // nothing else can be released
	}
	return c.each(w, "release", func(a *api, scope, name string) error {
		return a.do(w.ctx, http.MethodPost, recordPath(scope, name)+"/release", sent{Evidence: c.Evidence, Reason: c.Reason, Override: c.Override}, nil)
	})
}

type keysDeleteCmd struct{ chosen }

func (c *keysDeleteCmd) Run(w *world) error {
	return c.each(w, "delete", func(a *api, scope, name string) error {
		return a.do(w.ctx, http.MethodDelete, recordPath(scope, name)+"?"+url.Values{"reason": {c.Reason}}.Encode(), nil, nil)
	})
}
