package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/stet-dev/stet/operate"
)

// unasked are the flags of a command that asks no question, because it changes nothing by itself.
type unasked struct {
	Yes  bool `hidden:"" help:"Accepted and ignored; other changes need it."`
	JSON bool `name:"json" help:"Print the API's document."`
}

// told says what was done, or why it was not.
func (u *unasked) told(w *world, doc any, text string, err error) error {
	switch {
	case err != nil:
		return err
	case u.JSON:
		return writeJSON(w.stdout, doc)
	}
	return w.printf("%s\n", text)
}

// aside are the arguments of such a command, if it is about one record.
type aside struct {
	source
	named
	pinned
	unasked
}

type keysProbeCmd struct {
	aside
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
	return failf(exitError, "it is still unknown: %s%s", visible(r.Probe.Evidence), given(!r.Probe.Settles.IsZero(),
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
	o := one{&c.change, &c.named, c.pinned, fmt.Sprintf("keep %s for %s from now", visible(c.Key), c.For), ""}
	return o.do(w, a, func(record operate.Name, at operate.Change) error {
		return errorOf(a.Extend(w.ctx, record, operate.Extension{Change: at, Seconds: c.For.Seconds()}))
	})
}

type keysNoteCmd struct {
	aside
	Reason   string `placeholder:"TEXT" help:"Text of the note."`
	Evidence string `placeholder:"TEXT" help:"Evidence, such as the number of a ticket."`
}

// check implements [checked].
func (c *keysNoteCmd) check(*world) error {
	return refuse(strings.TrimSpace(c.Reason) == "", "a note needs --reason TEXT, which the audit trail keeps")
}

func (c *keysNoteCmd) Run(w *world, a *api) error {
	doc, err := a.Note(w.ctx, c.name(), operate.Remark{Reason: c.Reason, Evidence: c.Evidence, Condition: c.condition()})
	return c.told(w, &doc, "noted", c.missing(err))
}

type keysSnoozeCmd struct {
	aside
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
	return c.told(w, &doc, text, c.missing(err))
}

type keysHandCmd struct {
	aside
	To   string `required:"" placeholder:"NAME" help:"Who looks after it now."`
	Note string `placeholder:"TEXT" help:"What they have to know; it is kept in the audit trail."`
}

func (c *keysHandCmd) Run(w *world, a *api) error {
	doc, err := a.Hand(w.ctx, c.name(), operate.Handing{To: c.To, Note: c.Note, Condition: c.condition()})
	return c.told(w, &doc, "handed to "+visible(c.To), c.missing(err))
}
