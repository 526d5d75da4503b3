package main

import (
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
)

// picked are the records of a job, by a filter, an incident or their ids.
type picked struct {
	source
	IDs []string `arg:"" optional:"" name:"id" help:"In place of a filter: ids (k_…), at most 10,000; k_…@BASIS is changed only while it has that basis, as --json shows it."`
	selected
	confirmed
}

// check implements [checked].
func (p *picked) check(*world) error {
	byFilter := p.filter != (filter{})
	switch {
	case len(p.IDs) == 0 && p.Incident == "" && !byFilter:
		return failf(exitUsage, "no record is selected; give ids (k_…), --incident, or a filter: --state, --scope, --route")
	case len(p.IDs) > 0 && (p.Incident != "" || byFilter), p.Incident != "" && byFilter:
		return failf(exitUsage, "give ids, --incident or the flags of a filter: each selects by itself")
	case p.Limit < 0, p.Limit > 0 && !byFilter:
		return failf(exitUsage, "--limit is for a filter; give at least 1, or 0 for all that match")
	}
	for _, name := range p.IDs {
		switch id, basis, pinned := strings.Cut(name, "@"); {
		case !isID(id):
			return failf(exitUsage, "%q is no record's id; it is k_ and 16 hex digits, as lists and logs show it", name)
		case pinned && !isBasis(basis):
			return failf(exitUsage, "%q: a basis has 16 hex digits, as stet keys show --json shows it; without @ the record is changed as it is then", name)
		}
	}
	return nil
}

// start has an order carried out for what is selected.
func (p *picked) start(w *world, a *api, action operate.Action, o operate.Order) error {
	o.Action, o.IDs = action, p.IDs
	return p.job(w, a, &p.confirmed, o, p.lookAt())
}

type bulkResolveCmd struct {
	picked
	reasoned
	Evidence string `placeholder:"TEXT" help:"Evidence, such as the number of a ticket."`
}

func (c *bulkResolveCmd) Run(w *world, a *api) error {
	return c.start(w, a, operate.ActResolve, operate.Order{Reason: c.Reason, Evidence: c.Evidence})
}

type bulkProbeCmd struct {
	picked
	reasoned
}

func (c *bulkProbeCmd) Run(w *world, a *api) error {
	return c.start(w, a, operate.ActProbe, operate.Order{Reason: c.Reason})
}

type bulkSnoozeCmd struct {
	picked
	reasoned
	For time.Duration `required:"" placeholder:"30m" help:"For how long, up to 7 days."`
}

// check implements [checked].
func (c *bulkSnoozeCmd) check(*world) error {
	return refuse(c.For < time.Second || c.For > stet.MaxSnooze,
		"--for is %s; it must be at least 1s, and at most %d days", c.For, stet.MaxSnooze/(24*time.Hour))
}

func (c *bulkSnoozeCmd) Run(w *world, a *api) error {
	return c.start(w, a, operate.ActSnooze, operate.Order{Reason: c.Reason, Until: time.Now().Add(c.For)})
}

type bulkHandCmd struct {
	picked
	To   string `required:"" placeholder:"NAME" help:"Who looks after them now."`
	Note string `placeholder:"TEXT" help:"What they have to know; it is kept in the audit trail."`
}

func (c *bulkHandCmd) Run(w *world, a *api) error {
	return c.start(w, a, operate.ActHand, operate.Order{To: c.To, Note: c.Note})
}
