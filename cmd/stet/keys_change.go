package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

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

// chosen selects the records of a change: one by name, or those that match a filter.
type chosen struct {
	source
	change
	pinned
	Key string `arg:"" optional:"" help:"The key, without quotes, or the record's id (k_…). Without it, the filter selects the records."`
	selected
}

// check implements [checked].
func (c *chosen) check(*world) error {
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
func (c *chosen) each(w *world, a *api, o operate.Order, warning string,
	act func(record operate.Name, c operate.Change) error) error {
	if c.Key != "" {
		what := string(o.Action) + " " + visible(c.Key)
		return (&one{&c.change, &named{Key: c.Key, Scope: c.Scope}, c.pinned, what, warning}).do(w, a, act)
	}
	o.Reason = c.Reason
	return c.job(w, a, &c.confirmed, o, c.lookAt())
}

type keysReleaseCmd struct {
	chosen
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

type keysDeleteCmd struct{ chosen }

func (c *keysDeleteCmd) Run(w *world, a *api) error {
	return c.each(w, a, operate.Order{Selection: operate.Selection{Action: operate.ActDelete}}, "",
		func(record operate.Name, at operate.Change) error { return a.Delete(w.ctx, record, at) })
}
