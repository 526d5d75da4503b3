package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/stet-dev/stet"
)

// paged are the flags of a command that lists.
type paged struct {
	Limit  int    `default:"100" help:"Maximum number to list."`
	Cursor string `help:"Continue where a list with a next_cursor ended."`
	JSON   bool   `name:"json" help:"Print the API's document."`
}

// check implements [checked].
func (p *paged) check(*world) error {
	if p.Limit < 1 {
		return failf(exitUsage, "--limit is %d; it must be at least 1", p.Limit)
	}
	return nil
}

// list is one of the API's lists, and how its documents are printed.
type list struct {
	path, name string
	header     string
	row        func(doc json.RawMessage) (string, error)
}

// listing is what was read of a list: documents, and the cursor after the last of them.
type listing struct {
	docs []json.RawMessage
	next string
}

// page reads one page.
func (l *list) page(ctx context.Context, a *api, q url.Values) (listing, error) {
	var page struct {
		Keys, Entries, Messages []json.RawMessage
		Next                    string `json:"next_cursor"`
	}
	err := a.get(ctx, l.path+"?"+q.Encode(), &page)
	return listing{slices.Concat(page.Keys, page.Entries, page.Messages), page.Next}, err
}

// read follows the pages until it has limit documents, or there are no more. A page may be short or
// empty, because a store looks through a bounded number of records for each.
func (l *list) read(ctx context.Context, a *api, q url.Values, limit int) (listing, error) {
	all := listing{docs: []json.RawMessage{}, next: q.Get("cursor")}
	for {
		set(q, "cursor", all.next)
		q.Set("limit", strconv.Itoa(min(limit-len(all.docs), stet.MaxLimit)))
		page, err := l.page(ctx, a, q)
		if err != nil {
			return all, err
		}
		all.docs, all.next = append(all.docs, page.docs...), page.next
		if len(all.docs) >= limit || page.next == "" {
			return all, nil
		}
	}
}

// print reads as much as the flags say, and prints it. none is said of an empty list.
func (l *list) print(w *world, a *api, q url.Values, p paged, none string) error {
	set(q, "cursor", p.Cursor)
	all, err := l.read(w.ctx, a, q, p.Limit)
	if err != nil {
		return err
	}
	return l.show(w, all, p.JSON, none)
}

func (l *list) show(w *world, all listing, asJSON bool, none string) error {
	if asJSON {
		return writeJSON(w.stdout, map[string]any{l.name: all.docs, "next_cursor": all.next})
	}
	if len(all.docs) == 0 && all.next == "" {
		fmt.Fprintln(w.stderr, none)
		return nil
	}
	t := newTable(w.stdout)
	fmt.Fprintln(t, l.header)
	for _, doc := range all.docs {
		row, err := l.row(doc)
		if err != nil {
			return fmt.Errorf("an entry of the list cannot be read: %w", err)
		}
		fmt.Fprintln(t, row)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if all.next != "" {
		fmt.Fprintf(w.stderr, "there are more: --cursor %s\n", all.next)
	}
	return nil
}

// set puts a parameter into a query, unless it is empty.
func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// query is a query of the parameters that are not empty. Names and values alternate.
func query(parameters ...string) url.Values {
	q := url.Values{}
	for pair := range slices.Chunk(parameters, 2) {
		set(q, pair[0], pair[1])
	}
	return q
}

func newTable(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

// cells is a line of a table.
func cells(values ...any) string {
	return strings.TrimSuffix(fmt.Sprintf(strings.Repeat("%v\t", len(values)), values...), "\t")
}

// pairs prints names with their values, a line each, without those that have none.
func pairs(out io.Writer, namesAndValues ...string) error {
	t := newTable(out)
	for pair := range slices.Chunk(namesAndValues, 2) {
		if pair[1] != "" && pair[1] != "-" {
			fmt.Fprintf(t, "%s\t%s\n", pair[0], pair[1])
		}
	}
	return t.Flush()
}
