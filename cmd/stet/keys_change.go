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

	"golang.org/x/term"

	"github.com/stet-dev/stet/bulk"
)

// change is what every command that changes records needs.
type change struct {
	Reason string `placeholder:"TEXT" help:"Reason for the change; it is kept in the audit trail."`
	Yes    bool   `help:"Do not ask for confirmation. Needed where there is no terminal."`
	JSON   bool   `name:"json" help:"Print {\"changed\": N}."`
}

// check implements [checked].
func (c *change) check(*world) error {
	if strings.TrimSpace(c.Reason) == "" {
		return failf(exitUsage, "a change needs --reason TEXT: it is kept in the audit trail")
	}
	if !c.Yes && !isTerminal(os.Stdin) {
		return failf(exitUsage, "a change needs a confirmation, and there is no terminal to ask on; give --yes")
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

// isTerminal reports whether f is a terminal. /dev/null is a character device, too, and not one.
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
	Seconds  float64             `json:"seconds,omitempty"`
	Version  string              `json:"if_version,omitempty"`
	Now      bool                `json:"now,omitempty"`
	Override bool                `json:"override,omitempty"`
}

type keysResolveCmd struct {
	source
	change
	named
	pinned
	Completed   bool     `help:"The execution happened: retries get --status, --header and --body."`
	NotExecuted bool     `help:"The execution did not happen: one retry may run. The same as release."`
	Status      int      `placeholder:"N" help:"With --completed: the status that retries get."`
	Header      []string `placeholder:"'N: V'" sep:"none" help:"With --completed: a header that retries get; may be repeated."`
	Body        string   `placeholder:"TEXT" help:"With --completed: the body that retries get; @FILE reads it from a file."`
	Evidence    string   `placeholder:"TEXT" help:"Evidence, such as the provider's id."`
	freeing
}

// freeing is what frees a key against what the record says.
type freeing struct {
	Now      bool `help:"Release without waiting, even before the attempt has settled or while its handler has not returned."`
	Override bool `help:"Release even if a late answer of the handler says that the execution happened."`
}

// check implements [checked].
func (c *keysResolveCmd) check(*world) error {
	_, err := c.document()
	return err
}

func (c *keysResolveCmd) Run(w *world, a *api) error {
	doc, err := c.document()
	if err != nil {
		return err
	}
	o := one{&c.change, &c.named, fmt.Sprintf("resolve %s as %s", visible(c.Key), doc.Outcome), ""}
	if c.NotExecuted {
		o.warning = underWay
	}
	return o.do(w, a, c.IfVersion, func(version string) error {
		doc.Version = version
		return a.do(w.ctx, http.MethodPost, c.path()+"/resolve", doc, nil)
	})
}

func (c *keysResolveCmd) document() (sent, error) {
	doc := sent{Outcome: "not-executed", Evidence: c.Evidence, Reason: c.Reason, Now: c.Now, Override: c.Override}
	switch {
	case c.Completed == c.NotExecuted:
		return doc, failf(exitUsage, "what became of it? give --completed with --status N, or --not-executed")
	case c.Completed && (c.Now || c.Override):
		return doc, failf(exitUsage, "--now and --override free a key against what its record says, and belong to --not-executed")
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

// chosen selects the records of a change: one by name, or those that match a filter.
type chosen struct {
	source
	change
	pinned
	Key string `arg:"" optional:"" help:"The key, without quotes, or the record's id (k_…). Without it, the filter selects the records."`
	filter
	Limit int `help:"Maximum number of matching records to change (all)."`
}

// check implements [checked].
func (c *chosen) check(*world) error {
	filtered := c.filter
	filtered.Scope = "" // which is where the key is, too
	switch some := filtered != (filter{}); {
	case c.Key != "" && some:
		return failf(exitUsage, "KEY names one record, and --state, --route and --older-than choose several; give one of them")
	case c.Key == "" && !some && c.Scope == "":
		return failf(exitUsage, "which records? give KEY, or a filter: --state, --scope, --route, --older-than")
	case c.Key == "" && c.IfVersion != "":
		return failf(exitUsage, "--if-version is of one record, and needs KEY")
	case c.Limit < 0:
		return failf(exitUsage, "--limit is %d; at least one record, or 0 for all that match", c.Limit)
	}
	return nil
}

// each changes the named record by act, or all that match by a job. warning is printed before the
// question about a single record.
func (c *chosen) each(w *world, a *api, o order, warning string, act func(record *named, version string) error) error {
	if c.Key != "" {
		record := &named{Key: c.Key, Scope: c.Scope}
		what := one{&c.change, record, string(o.Action) + " " + visible(c.Key), warning}
		return what.do(w, a, c.IfVersion, func(version string) error { return act(record, version) })
	}
	return c.bulk(w, a, o)
}

type keysReleaseCmd struct {
	chosen
	Evidence string `placeholder:"TEXT" help:"Evidence."`
	freeing
}

func (c *keysReleaseCmd) Run(w *world, a *api) error {
	o := order{Action: bulk.Release, Evidence: c.Evidence, Now: c.Now, Override: c.Override}
	return c.each(w, a, o, underWay, func(record *named, version string) error {
		doc := sent{Evidence: c.Evidence, Reason: c.Reason, Version: version, Now: c.Now, Override: c.Override}
		return a.do(w.ctx, http.MethodPost, record.path()+"/release", doc, nil)
	})
}

type keysDeleteCmd struct{ chosen }

func (c *keysDeleteCmd) Run(w *world, a *api) error {
	return c.each(w, a, order{Action: bulk.Delete}, "", func(record *named, version string) error {
		q := url.Values{"reason": {c.Reason}}
		if version != "" {
			q.Set("if_version", version)
		}
		return a.do(w.ctx, http.MethodDelete, record.path()+"?"+q.Encode(), nil, nil)
	})
}
