package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet/reconcile/compare"
)

type compareCmd struct {
	Ledger          string   `required:"" placeholder:"FILE" help:"Your own entries: CSV with a header line, or JSON lines; - is stdin."`
	Provider        string   `required:"" placeholder:"FILE" help:"The provider's entries of the same period, likewise."`
	LedgerColumns   []string `placeholder:"id=NAME,…" help:"Names of the columns id, amount and currency in the ledger's file, where they are others."`
	ProviderColumns []string `placeholder:"id=NAME,…" help:"The same for the provider's file."`
	IDs             bool     `name:"ids" help:"Compare ids alone, without amounts and currencies."`
	Sorted          bool     `help:"Both files are in the order of their ids, byte by byte (LC_ALL=C sort): they are read in step, and may be of any length."`
	JSON            bool     `name:"json" help:"Print a document."`
}

// maxEntries is how many entries of a file are held to be sorted: with ids of 40 bytes, about 500 MB.
const maxEntries = 5_000_000

// comparison is the document of stet compare.
type comparison struct {
	Ledger      int          `json:"ledger"` // entries
	Provider    int          `json:"provider"`
	Differences []difference `json:"differences"`
}

// difference is one entry on which the two sides do not agree. A side that has no such entry is
// missing.
type difference struct {
	Kind     string  `json:"kind"`
	ID       string  `json:"id"`
	Ledger   *amount `json:"ledger,omitempty"`
	Provider *amount `json:"provider,omitempty"`
}

type amount struct {
	Amount   int64  `json:"amount"` // in the smallest unit
	Currency string `json:"currency,omitempty"`
}

func (c *compareCmd) check(*world) error {
	return refuse(c.Ledger == "-" && c.Provider == "-", "only one of --ledger and --provider can be stdin")
}

// Run ends with 6 if there are differences. What cannot be read is an error, and no difference: a
// comparison that is not complete finds nothing.
func (c *compareCmd) Run(w *world) error {
	var done comparison
	ledger, err := c.open(w, c.Ledger, "--ledger-columns", c.LedgerColumns, &done.Ledger)
	if err != nil {
		return err
	}
	defer ledger.close()
	provider, err := c.open(w, c.Provider, "--provider-columns", c.ProviderColumns, &done.Provider)
	if err != nil {
		return err
	}
	defer provider.close()
	ours, theirs := ledger.entries(), provider.entries()
	if !c.Sorted {
		if ours, err = inOrder(ledger.path, ours); err != nil {
			return err
		}
		if theirs, err = inOrder(provider.path, theirs); err != nil {
			return err
		}
	}
	done.Differences = []difference{}
	for d, err := range compare.Books(ours, theirs) {
		switch {
		case errors.Is(err, compare.ErrUnordered):
			return failf(exitUsage, "%w: sort the file (LC_ALL=C sort), or leave out --sorted", err)
		case err != nil:
			return err
		}
		done.Differences = append(done.Differences, differenceOf(&d))
	}
	if c.JSON {
		err = writeJSON(w.stdout, done)
	} else {
		err = done.print(w)
	}
	if n := len(done.Differences); err == nil && n > 0 {
		err = failf(exitFindings, "%s: each is for a person to end, by a booking, a refund, or stet keys resolve", some(n, "difference"))
	}
	return err
}

func differenceOf(d *compare.Difference) difference {
	out := difference{Kind: strings.ReplaceAll(d.Kind.String(), " ", "-"), ID: cmp.Or(d.Ledger, d.Provider).ID}
	if d.Ledger != nil {
		out.Ledger = &amount{d.Ledger.Amount, d.Ledger.Currency}
	}
	if d.Provider != nil {
		out.Provider = &amount{d.Provider.Amount, d.Provider.Currency}
	}
	return out
}

// print prints the differences as a table, and how much was compared.
func (c *comparison) print(w *world) error {
	if len(c.Differences) > 0 {
		t := newTable(w.stdout)
		_, _ = fmt.Fprintln(t, "KIND\tID\tLEDGER\tPROVIDER")
		for _, d := range c.Differences {
			_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", d.Kind, visible(d.ID), d.Ledger, d.Provider)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return w.printf("%d in the ledger, %d at the provider: %s\n", c.Ledger, c.Provider, cmp.Or(some(len(c.Differences), "difference"), "no difference"))
}

// String is what the table has of a side.
func (a *amount) String() string {
	if a == nil {
		return "-"
	}
	return strings.TrimSpace(strconv.FormatInt(a.Amount, 10) + " " + visible(a.Currency))
}

// book is one side's file.
type book struct {
	path string
	file *os.File                          // nil: stdin
	next func() (map[string]string, error) // the members of the next entry by their names in the file
	at   func() string                     // where that is
	name map[string]string                 // how the file calls id, amount and currency
	ids  bool
	read *int
}

// open opens a file and finds its columns.
func (c *compareCmd) open(w *world, path, flag string, columns []string, read *int) (*book, error) {
	b := &book{path: path, name: map[string]string{"id": "id", "amount": "amount", "currency": "currency"}, ids: c.IDs, read: read}
	for _, spec := range columns {
		what, name, ok := strings.Cut(spec, "=")
		if _, known := b.name[what]; !ok || !known || name == "" {
			return nil, failf(exitUsage, "%s: %q is not id=NAME, amount=NAME or currency=NAME", flag, spec)
		}
		b.name[what] = name
	}
	from := w.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, failf(exitUsage, "%w", err)
		}
		b.file, from = f, f
	}
	in := bufio.NewReader(from)
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(len(mark))
	}
	first, err := in.Peek(1)
	switch {
	case errors.Is(err, io.EOF):
		b.close()
		return nil, failf(exitUsage, "%s is empty: if there was nothing to book, give a CSV file with its header line alone", path)
	case err != nil:
		b.close()
		return nil, err
	case first[0] == '{':
		b.lines(in)
		return b, nil
	}
	if err := b.table(in, flag); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *book) close() { _ = b.file.Close() } // of nil it says that it is nil

// lines reads JSON documents, one after the other.
func (b *book) lines(in io.Reader) {
	d, n := json.NewDecoder(in), 0
	d.UseNumber()
	b.at = func() string { return fmt.Sprintf("entry %d", n) }
	b.next = func() (map[string]string, error) {
		var doc map[string]any
		n++
		if err := d.Decode(&doc); err != nil {
			return nil, err
		}
		entry := map[string]string{}
		for name, v := range doc {
			switch v := v.(type) {
			case string:
				entry[name] = v
			case json.Number:
				entry[name] = v.String()
			}
		}
		return entry, nil
	}
}

// table reads CSV (RFC 4180). The header line says which character separates.
func (b *book) table(in *bufio.Reader, flag string) error {
	r := csv.NewReader(in)
	head, _ := in.Peek(in.Buffered())
	head, _, _ = bytes.Cut(head, []byte("\n"))
	for _, separator := range ",;\t" {
		if bytes.ContainsRune(head, separator) {
			r.Comma = separator
			break
		}
	}
	names, err := r.Read()
	if err != nil {
		return failf(exitUsage, "%s has no header line: %w", b.path, err)
	}
	names = slices.Clone(names)
	r.ReuseRecord = true
	for _, what := range []string{"id", "amount", "currency"} {
		if !slices.Contains(names, b.name[what]) && (what == "id" || !b.ids) {
			return failf(exitUsage, "%s has no column %q, but %s: name it by %s %s=NAME%s", b.path, b.name[what], visible(strings.Join(names, ", ")), flag, what,
				ifTrue(what != "id", ", or give --ids to compare ids alone"))
		}
	}
	b.at = func() string { line, _ := r.FieldPos(0); return fmt.Sprintf("line %d", line) }
	b.next = func() (map[string]string, error) {
		fields, err := r.Read()
		if err != nil {
			return nil, err
		}
		entry := map[string]string{}
		for i, name := range names {
			entry[name] = fields[i]
		}
		return entry, nil
	}
	return nil
}

// entries yields the entries of the file, and counts them. An error says where it is.
func (b *book) entries() iter.Seq2[compare.Entry, error] {
	return func(yield func(compare.Entry, error) bool) {
		for {
			doc, err := b.next()
			if errors.Is(err, io.EOF) {
				return
			}
			var e compare.Entry
			if err == nil {
				if e, err = b.entry(doc); err != nil {
					err = fmt.Errorf("%s, %s: %w", b.path, b.at(), err)
				}
			} else {
				err = fmt.Errorf("%s: %w", b.path, err)
			}
			if err != nil {
				yield(e, &statusError{exitUsage, err})
				return
			}
			if *b.read++; !yield(e, nil) {
				return
			}
		}
	}
}

func (b *book) entry(doc map[string]string) (e compare.Entry, err error) {
	if e.ID = doc[b.name["id"]]; e.ID == "" {
		return e, fmt.Errorf("it has no %s", b.name["id"])
	}
	if b.ids {
		return e, nil
	}
	text, ok := doc[b.name["amount"]]
	if e.Amount, err = strconv.ParseInt(text, 10, 64); err != nil && ok {
		return e, fmt.Errorf("%s %q is no whole number: write it in the currency's smallest unit, such as cents", b.name["amount"], text)
	} else if err != nil {
		return e, fmt.Errorf("it has no %s", b.name["amount"])
	}
	e.Currency = strings.ToUpper(doc[b.name["currency"]])
	return e, nil
}

// inOrder holds all entries, and yields them in the order of their ids.
func inOrder(path string, entries iter.Seq2[compare.Entry, error]) (iter.Seq2[compare.Entry, error], error) {
	var all []compare.Entry
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		if len(all) == maxEntries {
			return nil, failf(exitUsage, "%s has more than %d entries: sort both files by their ids (LC_ALL=C sort) and give --sorted", path, maxEntries)
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b compare.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return func(yield func(compare.Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}, nil
}
