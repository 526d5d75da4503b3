package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet/operate"
)

type statusCmd struct {
	source
	FailOn []string `placeholder:"WHAT,…" default:"double,unknown,dead,outbox,store,upstream" help:"What ends the command with 6: double, unknown, dead, outbox, store, upstream, unstored, gateways, warnings; none: nothing does (double,unknown,dead,outbox,store,upstream)."`
	JSON   bool     `name:"json" help:"Print the API's document."`
}

// pressing are the parts of a status that may need a person, by the words of --fail-on. Each says
// what it is, or nothing.
var pressing = map[string]func(s *operate.Status) string{
	"double":   func(s *operate.Status) string { return some(len(s.Double), "double effect") },
	"unstored": func(s *operate.Status) string { return unstored(s.Unstored) },
	"unknown": func(s *operate.Status) string {
		if s.Unread {
			return "unknown outcomes, which could not be read"
		}
		return some(s.Waiting, "unknown outcome")
	},
	"dead": func(s *operate.Status) string { return some(s.Dead, "dead letter") },
	"outbox": func(s *operate.Status) string {
		if s.OutboxUnread {
			return "the outbox could not be read"
		}
		return some(valueOf(s.OutboxDead), "dead message")
	},
	"store": func(s *operate.Status) string {
		return ifTrue(!s.Store.OK, "the store: "+cmp.Or(s.Store.Why, "it does not answer"))
	},
	"upstream": func(s *operate.Status) string { return ifTrue(away(s.Upstream) != "", "the API "+away(s.Upstream)) },
	"gateways": func(s *operate.Status) string {
		return some(len(slices.DeleteFunc(slices.Clone(s.Gateways), func(g operate.Gateway) bool { return g.State != "gone" })),
			"missing gateway")
	},
	"warnings": func(s *operate.Status) string { return some(len(s.Warnings), "warning") },
}

// some is a number of things; "" if there are none.
func some(n int, what string) string { return ifTrue(n > 0, plural(n, what)) }

// plural is a number of things, none included.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// check implements [checked].
func (c *statusCmd) check(*world) error {
	for _, what := range c.FailOn {
		if what != "none" && pressing[what] == nil {
			return failf(exitUsage, "--fail-on: %q is not one of %s, none", what, strings.Join(sortedKeys(pressing), ", "))
		}
	}
	return nil
}

func (c *statusCmd) Run(w *world, a *api) error {
	s, err := shown(w, a, "/api/v1/status", c.JSON,
		func(s *operate.Status, w *world) error { return w.screen(s, c.lookAt()) })
	if err != nil {
		return noFigures(a, err)
	}
	var found []string
	for _, what := range c.FailOn {
		if is := pressing[what]; is != nil && is(&s) != "" {
			found = append(found, visible(is(&s)))
		}
	}
	if len(found) > 0 {
		return failf(exitFindings, "to be looked at: %s", strings.Join(found, ", "))
	}
	return nil
}

// screen prints what a person needs first: what waits, then how the parts are.
func (w *world) screen(s *operate.Status, where string) error {
	waits := unknowns(s.Unread, s.Unknown, s.Dead, s.Snoozed) +
		ifTrue(!s.OldestUnknown.IsZero(), "; the oldest that waits since "+w.cell(s.OldestUnknown))
	outbox := ifTrue(s.OutboxDead != nil, cmp.Or(some(valueOf(s.OutboxDead), "dead message"), "no dead messages")) +
		ifTrue(s.OutboxUnread, "not known: it could not be read")
	cache := ""
	if s.Cache != nil {
		cache = health(s.Cache)
	}
	lines := []string{"title", visible(s.Title), "at", instant(s.At), "double", doubles(s.Double), "unknown", waits, "outbox", outbox,
		"store", health(&s.Store), "cache", cache, "upstream", away(s.Upstream), "unstored", unstored(s.Unstored), "gateways", gateways(s.Gateways), "requests", requests(s)}
	_ = pairs(w.stdout, lines...)
	if len(s.Incidents) > 0 {
		fmt.Fprintln(w.stdout)
		if err := incidentList.rows(w, s.Incidents, &printed{}); err != nil {
			return err
		}
	}
	for _, warning := range s.Warnings {
		printWarning(w.stdout, &warning)
	}
	if text := next(s, where); text != "" {
		fmt.Fprintf(w.stdout, "\n%s\n", text)
	}
	return nil
}

// doubles says which keys had their effect twice, as far as no person has noted it; "" if none.
func doubles(all []operate.Entry) string {
	if len(all) == 0 {
		return ""
	}
	return visible(fmt.Sprintf("EXECUTED TWICE: %s; the last: %s of scope %s, %s", plural(len(all), "key"), all[0].ID, all[0].Scope,
		all[0].Evidence))
}

// unstored says what a process knows alone; "" if nothing.
func unstored(u *operate.Unstored) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("%s that the store has not taken, %d bytes: do not kill the gateway", plural(u.Entries, "outcome"), u.Bytes)
}

// away says that the API cannot be connected to; "" if it can, or that is not known.
func away(upstream *operate.Health) string {
	if upstream == nil || upstream.OK {
		return ""
	}
	return health(upstream)
}

// unknowns is how many outcomes are unknown, and which of them do not wait.
func unknowns(unread bool, all, dead, snoozed int) string {
	if unread {
		return "not known: the records could not be read"
	}
	return cmp.Or(ifTrue(all > 0, fmt.Sprint(all)), "none") + ifTrue(dead > 0, ", "+plural(dead, "dead letter")) +
		ifTrue(snoozed > 0, fmt.Sprintf(", %d snoozed", snoozed))
}

// next is the command that fits best, with where it looks.
func next(s *operate.Status, where string) string {
	switch {
	case len(s.Double) > 0:
		return fmt.Sprintf("next: stet keys show %s%s, and stet explain double-effect", visible(s.Double[0].ID), where)
	case len(s.Incidents) > 0:
		return fmt.Sprintf("next: stet incidents show %s%s", visible(s.Incidents[0].ID), where)
	case s.Unknown > 0: // all are snoozed
		return "next: stet keys list --state unknown" + where
	case valueOf(s.OutboxDead) > 0:
		return "next: stet outbox list --dead" + where
	case !s.Store.OK, away(s.Upstream) != "":
		return "next: stet doctor --config FILE, with the gateway's file"
	case len(s.Warnings) > 0:
		return "next: stet explain " + visible(s.Warnings[0].Code)
	}
	return ""
}

func printWarning(out io.Writer, f *operate.Warning) {
	fmt.Fprintf(out, "\n%s: %s\n  → %s\n", visible(f.Code), visible(f.Text), visible(f.Mend))
}

func health(h *operate.Health) string {
	text := "ok"
	if !h.OK {
		text = cmp.Or(h.Why, "does not answer")
	}
	return visible(ifTrue(h.Name != "", h.Name+": ") + text +
		ifTrue(h.P99MS > 0, fmt.Sprintf(", p50 %.1f ms, p99 %.1f ms", h.P50MS, h.P99MS)))
}

// gateways says how many of them are well, and names those that are not.
func gateways(all []operate.Gateway) string {
	var text string
	ready := 0
	for _, g := range all {
		text += ifTrue(g.Unheard, "; the others do not know of "+visible(g.Name))
		if g.State == "ready" {
			ready++
			continue
		}
		text += fmt.Sprintf("; %s %s since %s", visible(g.Name), visible(g.State), instant(g.SeenAt))
	}
	return ifTrue(len(all) > 0, fmt.Sprintf("%d of %d ready", ready, len(all))+text)
}

// requests says how many requests the gateways get, and what they were told.
func requests(s *operate.Status) string {
	if len(s.Gateways) == 0 {
		return ""
	}
	perSecond := 0.0
	for _, g := range s.Gateways {
		perSecond += g.PerSecond
	}
	return rate(perSecond) + "/s; " + cmp.Or(counted(s.Requests), "none") + since(s.RequestsSince)
}

// since says from when on something was counted.
func since(t time.Time) string { return " since " + instant(t) }

// rate is a number per second, to three digits.
func rate(n float64) string { return fmt.Sprintf("%.3g", n) }
