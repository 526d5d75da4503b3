package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/internal/rest"
)

type keysExportCmd struct {
	source
	sorted
}

func (c *keysExportCmd) Run(w *world, a *api) error { return export(w, a, a.Keys(c.query()).Raw()) }

// export prints each page as it comes, so that it needs no more memory than one page.
func export(w *world, a *api, all adminclient.List[json.RawMessage]) error {
	n := 0
	for doc, err := range all.All(w.ctx) {
		if err != nil {
			return fmt.Errorf("after %d lines, and not complete: %w", n, a.told(err))
		}
		if err := writeLine(w.stdout, doc); err != nil {
			return err
		}
		n++
	}
	fmt.Fprintf(w.stderr, "exported %d\n", n)
	return nil
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
	Every time.Duration `default:"1s" least:"100ms" help:"Interval between two looks."`
	JSON  bool          `name:"json" help:"Print records as JSON, one per line."`
}

func (c *keysTailCmd) Run(w *world, a *api) error {
	seen, err := c.look(w, a, nil)
	for err == nil && rest.For(w.ctx, c.Every) {
		seen, err = c.look(w, a, seen)
	}
	if w.ctx.Err() != nil { // Ctrl-C
		return nil
	}
	return err
}

// window is what one look has seen: the newest records.
type window struct {
	versions map[string]uint64 // by id
	oldest   time.Time         // when the first of them was created
	more     bool              // there were older ones
}

// covers reports whether a record was in the window, or was too old for it.
func (v *window) covers(r *record) bool {
	_, has := v.versions[r.ID]
	return has || v.more && !r.CreatedAt.After(v.oldest)
}

// look prints what is new or changed since the look before, the oldest first, and returns what it
// has seen. The first look has no look before it, and prints nothing. Older records that come into
// the window because others were removed have not changed.
func (c *keysTailCmd) look(w *world, a *api, before *window) (*window, error) {
	docs, next, err := a.Keys(c.query()).Raw().Take(w.ctx, "", stet.MaxLimit)
	if err != nil {
		return nil, err
	}
	now, fresh := &window{versions: map[string]uint64{}, more: next != ""}, 0
	for _, doc := range slices.Backward(docs) {
		var r record
		if err := json.Unmarshal(doc, &r); err != nil {
			return nil, fmt.Errorf("a record cannot be read: %w", err)
		}
		if len(now.versions) == 0 {
			now.oldest = r.CreatedAt
		}
		now.versions[r.ID] = r.Version
		if before == nil {
			continue
		}
		known := before.covers(&r)
		if !known {
			fresh++
		}
		if version, has := before.versions[r.ID]; has && version != r.Version || !known {
			if err := c.print(w, &r, doc); err != nil {
				return nil, err
			}
		}
	}
	if now.more && fresh == len(docs) {
		fmt.Fprintf(w.stderr, "stet: all of the newest %d records came since the last look, and there may have been more; "+
			"look more often (--every), or narrow the filter\n", fresh)
	}
	return now, nil
}

func (c *keysTailCmd) print(w *world, r *record, doc json.RawMessage) error {
	if c.JSON {
		return writeLine(w.stdout, doc)
	}
	return w.printf("%s  %s  %-9s  %s  %d  %s  %s  %s\n", instant(r.UpdatedAt), visible(r.ID), visible(r.State),
		number(r.Status), r.Attempt, visible(r.Scope), visible(r.Route), visible(r.Cause))
}
