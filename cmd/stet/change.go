package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/operate"
)

// change is what every command that changes records needs.
type change struct {
	reasoned
	confirmed
}

// reasoned is why something is done.
type reasoned struct {
	Reason string `placeholder:"TEXT" help:"Reason for the change; it is kept in the audit trail."`
}

// check implements [checked].
func (r *reasoned) check(*world) error {
	return refuse(strings.TrimSpace(r.Reason) == "", "a change needs --reason TEXT, which the audit trail keeps")
}

// confirmed are the flags of a command that asks before it changes anything.
type confirmed struct {
	Yes  bool `help:"Do not ask for confirmation. Needed where there is no terminal."`
	JSON bool `name:"json" help:"Print {\"changed\": N}."`
}

// check implements [checked].
func (c *confirmed) check(w *world) error {
	return refuse(!c.Yes && !isTerminal(w.stdin),
		"a change needs a confirmation, and there is no terminal to ask on; give --yes")
}

// sure asks, unless --yes was given. what says what is about to happen.
func (c *confirmed) sure(w *world, what string) error {
	if c.Yes {
		return nil
	}
	fmt.Fprintf(w.stderr, "%s? [y/N] ", what)
	answer, err := bufio.NewReader(w.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	a := strings.ToLower(strings.TrimSpace(answer))
	return refuse(a != "y" && a != "yes", "nothing was changed")
}

// isTerminal reports whether a stream is a terminal. /dev/null is a character device, too, and not
// one.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (c *confirmed) done(w *world, n int) error {
	if c.JSON {
		return writeJSON(w.stdout, map[string]int{"changed": n})
	}
	return w.printf("changed %d\n", n)
}

// recordOrFilter selects the records of a change: one by name, or those that match a filter.
type recordOrFilter struct {
	source
	change
	pinned
	Key string `arg:"" optional:"" help:"The key, without quotes, or the record's id (k_…). Without it, the filter selects the records."`
	selected
}

// check implements [checked].
func (c *recordOrFilter) check(*world) error {
	filtered := c.filter
	filtered.Scope = "" // which is where the key is, too
	switch some := filtered != (filter{}); {
	case c.Incident != "" && (some || c.Key != "" || c.Scope != "" || c.Limit != 0 || c.pinned != (pinned{})):
		return failf(exitUsage,
			"--incident selects by itself, as its records are then; give it without KEY, --limit, --if-… and the flags of a filter")
	case c.Incident != "":
		return nil
	case c.Key != "" && some:
		return failf(exitUsage, "give KEY for one record, or --state, --route and --older-than for several, not both")
	case c.Key == "" && !some && c.Scope == "":
		return failf(exitUsage,
			"no record is selected; give KEY, --incident, or a filter: --state, --scope, --route, --older-than")
	case c.Key == "" && c.pinned != (pinned{}):
		return failf(exitUsage, "--if-version and --if-basis are for one record; give KEY")
	case c.Limit < 0:
		return failf(exitUsage, "--limit is %d; give at least 1, or 0 for all that match", c.Limit)
	}
	return nil
}

// each changes the named record by act, or all that match by a job. warning is printed before the
// question about a single record.
func (c *recordOrFilter) each(w *world, a *api, o operate.Order, warning string,
	act func(record operate.Name, c operate.Change) error) error {
	if c.Key != "" {
		what := string(o.Action) + " " + visible(c.Key)
		return (&recordChange{&c.change, &named{Key: c.Key, Scope: c.Scope}, c.pinned, what, warning}).do(w, a, act)
	}
	o.Reason = c.Reason
	return c.job(w, a, &c.confirmed, o, c.lookAt())
}

type keysReleaseCmd struct {
	recordOrFilter
	Evidence string `placeholder:"TEXT" help:"Evidence."`
	freeing
}

// check implements [checked].
func (c *keysReleaseCmd) check(*world) error {
	return refuse(c.Voided && c.Key == "", "--voided is for one record; give KEY")
}

func (c *keysReleaseCmd) Run(w *world, a *api) error {
	o := operate.Order{Selection: operate.Selection{Action: operate.ActRelease}, Evidence: c.Evidence, Now: c.Now,
		Override: c.Override}
	return c.each(w, a, o, underWay, func(record operate.Name, at operate.Change) error {
		at.Evidence = c.Evidence
		doc := operate.Resolution{Change: at, Now: c.Now, Override: c.Override, Voided: c.Voided}
		return errorOf(a.Release(w.ctx, record, doc))
	})
}

type keysDeleteCmd struct{ recordOrFilter }

func (c *keysDeleteCmd) Run(w *world, a *api) error {
	return c.each(w, a, operate.Order{Selection: operate.Selection{Action: operate.ActDelete}}, "",
		func(record operate.Name, at operate.Change) error { return a.Delete(w.ctx, record, at) })
}

// noConfirmation has the flags of a command that asks no question, because it changes nothing by itself.
type noConfirmation struct {
	Yes  bool `hidden:"" help:"Accepted and ignored; other changes need it."`
	JSON bool `name:"json" help:"Print the API's document."`
}

// printResult says what was done, or why it was not.
func (u *noConfirmation) printResult(w *world, doc any, text string, err error) error {
	switch {
	case err != nil:
		return err
	case u.JSON:
		return writeJSON(w.stdout, doc)
	}
	return w.printf("%s\n", text)
}

// quickCommand has the arguments of such a command, if it is about one record.
type quickCommand struct {
	source
	named
	pinned
	noConfirmation
}

type keysProbeCmd struct {
	quickCommand
	Reason string `placeholder:"TEXT" help:"Reason; it is kept in the audit trail."`
}

func (c *keysProbeCmd) Run(w *world, a *api) error {
	r, err := a.Probe(w.ctx, c.name(), operate.Question{Reason: c.Reason, Condition: c.condition()})
	if err != nil {
		return c.missing(err)
	}
	if c.JSON {
		_ = writeJSON(w.stdout, r)
	}
	if r.State != "unknown" {
		fmt.Fprintf(w.stderr, "it is %s: %s\n", visible(r.State), visible(r.Probe.Evidence))
		if c.JSON {
			return nil
		}
		return (&change{}).done(w, 1)
	}
	return failf(exitError, "it is still unknown: %s%s", visible(r.Probe.Evidence), ifTrue(!r.Probe.Settles.IsZero(),
		"; from "+instant(r.Probe.Settles)+" on, no trace is proof that it did not happen"))
}

type keysExtendCmd struct {
	source
	change
	named
	pinned
	For time.Duration `required:"" placeholder:"30d" least:"1s" help:"How long from now the result is kept."`
}

func (c *keysExtendCmd) Run(w *world, a *api) error {
	o := recordChange{&c.change, &c.named, c.pinned, fmt.Sprintf("keep %s for %s from now", visible(c.Key), c.For), ""}
	return o.do(w, a, func(record operate.Name, at operate.Change) error {
		return errorOf(a.Extend(w.ctx, record, operate.Extension{Change: at, Seconds: c.For.Seconds()}))
	})
}

type keysNoteCmd struct {
	quickCommand
	Reason   string `placeholder:"TEXT" help:"Text of the note."`
	Evidence string `placeholder:"TEXT" help:"Evidence, such as the number of a ticket."`
}

// check implements [checked].
func (c *keysNoteCmd) check(*world) error {
	return refuse(strings.TrimSpace(c.Reason) == "", "a note needs --reason TEXT, which the audit trail keeps")
}

func (c *keysNoteCmd) Run(w *world, a *api) error {
	doc, err := a.Note(w.ctx, c.name(), operate.Remark{Reason: c.Reason, Evidence: c.Evidence, Condition: c.condition()})
	return c.printResult(w, &doc, "noted", c.missing(err))
}

type keysSnoozeCmd struct {
	quickCommand
	For    time.Duration `required:"" placeholder:"30m" help:"For how long, up to 7 days; 0 wakes it."`
	Reason string        `placeholder:"TEXT" help:"Reason; it is kept in the audit trail."`
}

// check implements [checked].
func (c *keysSnoozeCmd) check(*world) error {
	return refuse(c.For > 0 && strings.TrimSpace(c.Reason) == "",
		"a snooze needs --reason TEXT, which the audit trail keeps")
}

func (c *keysSnoozeCmd) Run(w *world, a *api) error {
	seconds, text := c.For.Seconds(), "woken"
	doc, err := a.Snooze(w.ctx, c.name(), operate.Snoozing{For: &seconds, Reason: c.Reason, Condition: c.condition()})
	if doc.Snooze != nil {
		text = "snoozed until " + instant(doc.Snooze.Until)
	}
	return c.printResult(w, &doc, text, c.missing(err))
}

type keysHandCmd struct {
	quickCommand
	To   string `required:"" placeholder:"NAME" help:"Who looks after it now."`
	Note string `placeholder:"TEXT" help:"What they have to know; it is kept in the audit trail."`
}

func (c *keysHandCmd) Run(w *world, a *api) error {
	doc, err := a.Hand(w.ctx, c.name(), operate.Handing{To: c.To, Note: c.Note, Condition: c.condition()})
	return c.printResult(w, &doc, "handed to "+visible(c.To), c.missing(err))
}

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
	o := recordChange{&c.change, &c.named, c.pinned, fmt.Sprintf("resolve %s as %s", visible(c.Key), doc.Outcome), ""}
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
