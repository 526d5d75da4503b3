package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

type keysFindCmd struct {
	source
	Name  string `arg:"" help:"An id (k_…), a key, or the key or id that a downstream system knows the effect by."`
	Scope string `placeholder:"SCOPE" help:"Only in this scope."`
	JSON  bool   `name:"json" help:"Print the API's document."`
}

func (c *keysFindCmd) Run(w *world, a *api) error {
	all := listing{docs: []json.RawMessage{}}
	if isID(c.Name) {
		var doc json.RawMessage
		switch err := a.get(w.ctx, (&named{Key: c.Name, Scope: c.Scope}).path(), &doc); {
		case err == nil:
			all.docs = append(all.docs, doc)
		case exitOf(err) != exitNotFound:
			return err
		}
	}
	var incomplete error
	for _, by := range []string{"q", "downstream"} {
		found, err := c.by(w, a, by)
		if err != nil && by == "downstream" && exitOf(err) == exitError { // not every store can
			incomplete = err
			continue
		}
		if err != nil {
			return err
		}
		all.docs = append(all.docs, found...)
	}
	var err error
	if all.docs, err = once(all.docs); err != nil {
		return err
	}
	if len(all.docs) == 0 {
		return errors.Join(failf(exitNotFound, "no record has that name: neither as its id or key, nor further down"), incomplete)
	}
	if incomplete != nil {
		fmt.Fprintln(w.stderr, "stet: only ids and keys were looked through:", incomplete)
	}
	return keysList.show(w, all, c.JSON, noRecords)
}

// by looks for the name by one parameter of the API.
func (c *keysFindCmd) by(w *world, a *api, parameter string) ([]json.RawMessage, error) {
	const most = 1000 // of one name, in as many scopes
	q := query(parameter, c.Name, "scope", c.Scope)
	if parameter == "downstream" { // which has no pages
		found, err := keysList.page(w.ctx, a, q)
		return found.docs, err
	}
	found, err := keysList.read(w.ctx, a, q, most)
	return found.docs, err
}

// once leaves out records that were found twice, by their version: no two have the same.
func once(docs []json.RawMessage) (kept []json.RawMessage, err error) {
	var seen []string
	kept = []json.RawMessage{}
	for _, doc := range docs {
		var r record
		if err := json.Unmarshal(doc, &r); err != nil {
			return nil, fmt.Errorf("a record cannot be read: %w", err)
		}
		if !slices.Contains(seen, r.version()) {
			seen, kept = append(seen, r.version()), append(kept, doc)
		}
	}
	return kept, nil
}

// unasked are the flags of a command that asks no question, because it changes nothing by itself.
type unasked struct {
	Yes  bool `hidden:"" help:"Accepted and ignored; other changes need it."`
	JSON bool `name:"json" help:"Print the API's document."`
}

type keysProbeCmd struct {
	source
	named
	pinned
	unasked
	Reason string `placeholder:"TEXT" help:"Reason; it is kept in the audit trail."`
}

func (c *keysProbeCmd) Run(w *world, a *api) error {
	var doc json.RawMessage
	asked := struct {
		Reason  string `json:"reason,omitempty"`
		Version string `json:"if_version,omitempty"`
	}{c.Reason, c.IfVersion}
	if err := a.do(w.ctx, http.MethodPost, c.path()+"/probe", asked, &doc); err != nil {
		return c.missing(err)
	}
	var r struct {
		record
		Probe struct {
			Found, Evidence string
			Settles         time.Time `json:"settles_at"`
		}
	}
	if err := json.Unmarshal(doc, &r); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	if c.JSON {
		if err := writeJSON(w.stdout, doc); err != nil {
			return err
		}
	}
	if r.State != "unknown" {
		fmt.Fprintf(w.stderr, "it is %s: %s\n", r.State, orDash(r.Probe.Evidence))
		if c.JSON {
			return nil
		}
		return (&change{}).done(w, 1)
	}
	text := "nobody knows: " + orDash(r.Probe.Evidence)
	if !r.Probe.Settles.IsZero() {
		text += "; that there is no trace of it is proof from " + instant(r.Probe.Settles) + " on"
	}
	return failf(exitError, "it is still unknown, and %s", text)
}

type keysExtendCmd struct {
	source
	change
	named
	pinned
	For time.Duration `required:"" placeholder:"30d" help:"How long from now the result is kept."`
}

// check implements [checked].
func (c *keysExtendCmd) check(*world) error {
	if c.For < time.Second {
		return failf(exitUsage, "--for is %s; a result is kept for a second at least", c.For)
	}
	return nil
}

func (c *keysExtendCmd) Run(w *world, a *api) error {
	o := one{&c.change, &c.named, fmt.Sprintf("keep %s for %s from now", visible(c.Key), c.For), ""}
	return o.do(w, a, c.IfVersion, func(version string) error {
		return a.do(w.ctx, http.MethodPost, c.path()+"/extend", sent{Reason: c.Reason, Seconds: c.For.Seconds(), Version: version}, nil)
	})
}

type keysNoteCmd struct {
	source
	named
	pinned
	unasked
	Reason   string `placeholder:"TEXT" help:"Text of the note."`
	Evidence string `placeholder:"TEXT" help:"Evidence, such as the number of a ticket."`
}

// check implements [checked].
func (c *keysNoteCmd) check(*world) error {
	if strings.TrimSpace(c.Reason) == "" {
		return failf(exitUsage, "a note needs --reason TEXT: it is what the audit trail keeps")
	}
	return nil
}

func (c *keysNoteCmd) Run(w *world, a *api) error {
	doc := json.RawMessage{}
	if err := a.do(w.ctx, http.MethodPost, c.path()+"/note", sent{Reason: c.Reason, Evidence: c.Evidence, Version: c.IfVersion}, &doc); err != nil {
		return c.missing(err)
	}
	if c.JSON {
		return writeJSON(w.stdout, doc)
	}
	_, err := fmt.Fprintln(w.stdout, "noted")
	return err
}
