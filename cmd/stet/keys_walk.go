package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
)

type keysExportCmd struct {
	source
	sorted
}

// Run prints each page as it comes, so that an export needs no more memory than one page.
func (c *keysExportCmd) Run(w *world, a *api) error {
	q, n := c.query(), 0
	q.Set("limit", strconv.Itoa(stet.MaxLimit))
	for {
		page, err := keysList.page(w.ctx, a, q)
		if err != nil {
			return fmt.Errorf("after %d records, and not complete: %w", n, err)
		}
		for _, doc := range page.docs {
			if err := writeLine(w.stdout, doc); err != nil {
				return err
			}
			n++
		}
		if q.Set("cursor", page.next); page.next == "" {
			fmt.Fprintf(w.stderr, "exported %d\n", n)
			return nil
		}
	}
}

// writeLine prints a document on a line of its own.
func writeLine(out io.Writer, doc json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Compact(&b, doc); err != nil {
		return fmt.Errorf("a record cannot be read: %w", err)
	}
	b.WriteByte('\n')
	_, err := out.Write(b.Bytes())
	return err
}

type keysTailCmd struct {
	source
	filter
	Every time.Duration `default:"1s" help:"Interval between two looks."`
	JSON  bool          `name:"json" help:"Print records as JSON, one per line."`
}

// Help is what --help says below the flags.
func (keysTailCmd) Help() string {
	return "It watches the newest 1000 matching records; changes of older ones are not seen."
}

// check implements [checked].
func (c *keysTailCmd) check(*world) error {
	if c.Every < 100*time.Millisecond {
		return failf(exitUsage, "--every is %s; at least 100ms", c.Every)
	}
	return nil
}

func (c *keysTailCmd) Run(w *world, a *api) error {
	seen, err := c.look(w, a, nil)
	for err == nil {
		select {
		case <-w.ctx.Done():
			return nil
		case <-time.After(c.Every):
			seen, err = c.look(w, a, seen)
		}
	}
	if w.ctx.Err() != nil { // Ctrl-C while it looked
		return nil
	}
	return err
}

// look prints what is new or changed since the look before, the oldest first, and returns the
// version of each record. The first look has no look before it, and prints nothing.
func (c *keysTailCmd) look(w *world, a *api, before map[string]string) (map[string]string, error) {
	all, err := keysList.read(w.ctx, a, c.query(), stet.MaxLimit)
	if err != nil {
		return nil, err
	}
	now := map[string]string{}
	for _, doc := range slices.Backward(all.docs) {
		var r record
		if err := json.Unmarshal(doc, &r); err != nil {
			return nil, fmt.Errorf("a record cannot be read: %w", err)
		}
		now[r.ID] = r.version()
		if before == nil || before[r.ID] == r.version() {
			continue
		}
		if err := c.print(w, &r, doc); err != nil {
			return nil, err
		}
	}
	return now, nil
}

func (c *keysTailCmd) print(w *world, r *record, doc json.RawMessage) error {
	if c.JSON {
		return writeLine(w.stdout, doc)
	}
	_, err := fmt.Fprintf(w.stdout, "%s  %s  %-9s  %s  %d  %s  %s  %s\n", instant(r.UpdatedAt), r.ID, r.State, number(r.Status), r.Attempt,
		visible(r.Scope), visible(r.Route), orDash(r.Cause))
	return err
}
