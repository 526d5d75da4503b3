package main

import (
	"fmt"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/operate"
)

type incidentsCmds struct {
	List incidentsListCmd `cmd:"" default:"withargs" help:"List the groups of unknown records, the most pressing first."`
	Show incidentsShowCmd `cmd:"" help:"Show an incident with its records."`
}

type incidentsListCmd struct {
	source
	Scope string `placeholder:"SCOPE" help:"Only records of this scope."`
	Route string `placeholder:"ROUTE" help:"Only records of this route."`
	With  string `placeholder:"NAME" help:"Only records that were handed to this name."`
	printed
}

// check implements [checked].
func (c *incidentsListCmd) check(*world) error { return incidentList.check(&c.printed) }

func (c *incidentsListCmd) Run(w *world, a *api) error {
	path := adminclient.IncidentsPath(operate.IncidentQuery{Scope: stet.Scope(c.Scope), Route: c.Route, With: c.With})
	return incidentList.whole(w, a, path, &c.printed, "no outcome is unknown")
}

var incidentList = listOf("incidents", 10, "incident since count cause route owner dead asking settled with snoozed "+
	"late probes", map[string]func(*operate.Incident) any{
	"count":   func(i *operate.Incident) any { return atLeast(i.Count, i.More) },
	"dead":    func(i *operate.Incident) any { return number(i.Dead) },
	"asking":  func(i *operate.Incident) any { return askers(&i.Asking) },
	"with":    func(i *operate.Incident) any { return strings.Join(i.With, ", ") },
	"snoozed": func(i *operate.Incident) any { return number(i.Snoozed) },
	"late":    func(i *operate.Incident) any { return number(i.Late) },
	"probes":  func(i *operate.Incident) any { return counted(i.Probes) },
})

// atLeast is a number of which there may be more.
func atLeast(n int, more bool) string { return fmt.Sprint(n) + ifTrue(more, " or more") }

type incidentsShowCmd struct {
	source
	ID string `arg:"" help:"The incident (i_…), as stet status lists it."`
	printed
}

// check implements [checked].
func (c *incidentsShowCmd) check(*world) error { return memberList.check(&c.printed) }

func (c *incidentsShowCmd) Run(w *world, a *api) error {
	_, err := shown(w, a, adminclient.IncidentPath(c.ID), c.JSON, func(i *operate.Incident, w *world) error {
		_ = pairs(w.stdout, "incident", i.ID, "cause", i.Cause, "route", i.Route, "owner", i.Owner,
			"since", w.when(i.Since), "unknown", atLeast(i.Count, i.More), "dead letters", number(i.Dead),
			"snoozed", number(i.Snoozed), "late answers", number(i.Late), "last probes", counted(i.Probes),
			"clients asked", timesAsked(&i.Asking, w), "settled", w.when(i.SettledAt),
			"with", strings.Join(i.With, ", "))
		fmt.Fprintln(w.stdout)
		if err := memberList.rows(w, i.Keys, &c.printed); err != nil || len(i.Keys) == 0 {
			return err
		}
		return w.printf("\nstet keys show %s%s shows the first, what follows if nothing is done, and what may "+
			"be done\n", visible(i.Keys[0].ID), c.lookAt())
	})
	return noSuchIncident(err)
}

// noSuchIncident puts the API's 404 into words about incidents.
func noSuchIncident(err error) error {
	return absent(err, exitNotFound,
		"there is no such incident: its last record may have been settled; stet incidents lists what there is")
}

// timesAsked says how often clients asked, and when last.
func timesAsked(a *operate.Asking, w *world) string {
	if a.Count == 0 {
		return strings.TrimPrefix(askers(a), "-")
	}
	return fmt.Sprintf("%s%s, the last %s", ifTrue(a.More, "at least "), plural(a.Count, "time"), w.when(a.LastAt))
}

// askers is how often clients asked, as far as it is known.
func askers(a *operate.Asking) string {
	switch {
	case a == nil:
		return ""
	case a.Count == 0 && a.More:
		return "not known"
	}
	return ifTrue(a.More, "at least ") + number(a.Count)
}

// memberList are the records of an incident: what tells them apart, and what is known of each.
var memberList = listOf("keys", 8, "id since=unknown_since scope path dead late-answer=late_answer.status "+
	"last-probe=last_probe.found asked "+recordColumns, ofRecord)
