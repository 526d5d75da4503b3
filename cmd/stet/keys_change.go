package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/stet-dev/stet/bulk"
)

// change is what every command that changes records needs.
type change struct {
	Reason string `placeholder:"TEXT" help:"Why; it is kept in the audit trail."`
	Yes    bool   `help:"Do not ask. Needed where nobody can be asked."`
	JSON   bool   `name:"json" help:"Print {\"changed\": N}."`
}

// sure asks, unless --yes was given. what says what is about to happen.
func (c *change) sure(w *world, what string) error {
	if c.Reason == "" {
		return failf(exitUsage, "a change needs --reason TEXT: it is kept in the audit trail")
	}
	if c.Yes {
		return nil
	}
	if !isTerminal(os.Stdin) {
		return failf(exitUsage, "%s: give --yes, since nobody can be asked here", what)
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

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

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
	Now      bool                `json:"now,omitempty"`
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
	Limit     int           `help:"At most so many of those that match (all)."`
}

// each changes the record that is named, by act, or those that match, by a job.
func (c *chosen) each(w *world, o order, act func(a *api, scope, name string) error) error {
	filtered := c.State != "" || c.Route != "" || c.OlderThan > 0
	switch {
	case c.Key != "" && filtered:
		return failf(exitUsage, "KEY names one record, and --state, --route and --older-than choose several; give one of them")
	case c.Key == "" && !filtered && c.Scope == "":
		return failf(exitUsage, "which records? give KEY, or a filter: --state, --scope, --route, --older-than")
	case c.Limit < 0:
		return failf(exitUsage, "--limit is %d; at least one record, or 0 for all that match", c.Limit)
	}
	a, err := c.open(w)
	if err != nil {
		return err
	}
	defer a.close()
	if c.Key != "" {
		if c.Scope == "" {
			c.Scope = "default"
		}
		if err := c.sure(w, string(o.Action)+" "+visible(c.Key)); err != nil {
			return err
		}
		if err := act(a, c.Scope, c.Key); err != nil {
			return err
		}
		return c.done(w, 1)
	}
	return c.bulk(w, a, o)
}

type keysReleaseCmd struct {
	chosen
	Evidence string `placeholder:"TEXT" help:"What shows it."`
	Now      bool   `help:"Also before the attempt has settled, or while its handler has not returned."`
	Override bool   `help:"Also against a late answer of the handler, or while it has not returned."`
}

func (c *keysReleaseCmd) Run(w *world) error {
	o := order{Action: bulk.Release, Evidence: c.Evidence, Now: c.Now, Override: c.Override}
	return c.each(w, o, func(a *api, scope, name string) error {
		return a.do(w.ctx, http.MethodPost, recordPath(scope, name)+"/release", sent{Evidence: c.Evidence, Reason: c.Reason, Now: c.Now, Override: c.Override}, nil)
	})
}

type keysDeleteCmd struct{ chosen }

func (c *keysDeleteCmd) Run(w *world) error {
	return c.each(w, order{Action: bulk.Delete}, func(a *api, scope, name string) error {
		return a.do(w.ctx, http.MethodDelete, recordPath(scope, name)+"?"+url.Values{"reason": {c.Reason}}.Encode(), nil, nil)
	})
}
