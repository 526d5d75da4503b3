package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/operate"
)

type keysResolveCmd struct {
	source
	change
	named
	pinned
	Completed   bool     `help:"The execution happened: retries get --status, --header and --body."`
	NotExecuted bool     `help:"The execution did not happen: one retry may run. The same as release."`
	As          string   `placeholder:"WHAT" complete:"late-answer,last-probe" help:"In place of both: late-answer: it happened, and retries get the answer that came too late; last-probe: it happened, as the last probe found."`
	Status      int      `placeholder:"N" help:"With --completed: the status that retries get."`
	Header      []string `placeholder:"'N: V'" sep:"none" help:"With --completed: a header that retries get; may be repeated."`
	Body        string   `placeholder:"TEXT" help:"With --completed: the body that retries get; @FILE reads it from a file."`
	Evidence    string   `placeholder:"TEXT" help:"Evidence, such as the provider's id."`
	freeing
}

// freeing is what frees a key against what the record says.
type freeing struct {
	Now      bool `help:"Release without waiting, even before the attempt has settled or while its handler has not returned; takes the role admin."`
	Override bool `help:"Release even if a late answer of the handler, or the last probe, says that the execution happened; takes the role admin."`
	Voided   bool `help:"Release before the attempt has settled, because the provider cancelled it: --evidence says where that shows; takes the role admin."`
}

// check implements [checked].
func (c *keysResolveCmd) check(*world) error {
	given := c.Completed || c.NotExecuted || c.Status != 0 || c.Header != nil || c.Body != "" || c.Now || c.Override ||
		c.Voided
	switch {
	case c.As != "" && given:
		return failf(exitUsage,
			"--as %s says what happened; give it without --completed, --not-executed and what belongs to them", c.As)
	case c.As != "":
		return nil
	}
	return errorOf(c.document())
}

func (c *keysResolveCmd) Run(w *world, a *api) error {
	doc, err := c.document()
	if err != nil {
		return err
	}
	o := one{&c.change, &c.named, c.pinned, fmt.Sprintf("resolve %s as %s", visible(c.Key), doc.Outcome), ""}
	switch {
	case doc.As != "":
		o.what = fmt.Sprintf("resolve %s as its %s says", visible(c.Key), strings.ReplaceAll(c.As, "-", " "))
	case c.NotExecuted:
		o.warning = underWay
	}
	err = o.do(w, a, func(record operate.Name, at operate.Change) error {
		at.Evidence = doc.Evidence
		doc.Change = at
		return errorOf(a.Resolve(w.ctx, record, doc))
	})
	switch {
	case c.As == "", !adminclient.Is(err, "no-answer"):
		return err
	case c.As == lastProbe:
		return failf(exitError, "its last probe found no answer for retries; stet keys show says what is known, stet keys probe asks again, "+
			"stet keys resolve --completed says what you know, and stet keys release that it did not happen")
	}
	return failf(exitError, "it has no late answer; stet keys resolve --completed --status N gives retries one of yours")
}

func (c *keysResolveCmd) document() (operate.Resolution, error) {
	doc := operate.Resolution{Change: operate.Change{Evidence: c.Evidence}, Outcome: "not-executed", Now: c.Now,
		Override: c.Override, Voided: c.Voided}
	switch {
	case c.As != "":
		return operate.Resolution{Change: doc.Change, As: c.As}, nil
	case c.Completed == c.NotExecuted:
		return doc, failf(exitUsage, "say what happened: --completed with --status N, --not-executed, or --as late-answer or last-probe")
	case c.Completed && (c.Now || c.Override || c.Voided):
		return doc, failf(exitUsage, "--now, --override and --voided release a key; give them with --not-executed")
	case c.NotExecuted && (c.Status != 0 || c.Header != nil || c.Body != ""):
		return doc, failf(exitUsage, "--status, --header and --body describe an answer; give them with --completed")
	case c.NotExecuted:
		return doc, nil
	case c.Status < 200 || c.Status > 599:
		return doc, failf(exitUsage, "--status has to be the status that retries get, 200 to 599")
	}
	headers := http.Header{}
	doc.Outcome, doc.Status, doc.Headers = "completed", &c.Status, headers
	for _, line := range c.Header {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return doc, failf(exitUsage, "--header %q is not a header; give 'Name: value'", line)
		}
		headers.Add(name, strings.TrimSpace(value))
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

const lastProbe = "last-probe"
