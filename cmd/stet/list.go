package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/internal/age"
	"github.com/stet-dev/stet/internal/spell"
)

// paged are the flags of a command that lists by pages.
type paged struct {
	Limit  int    `default:"100" least:"1" help:"Maximum number to list."`
	Cursor string `help:"Continue where a list with a next_cursor ended."`
	printed
}

// printed are the flags of a command that prints a table.
type printed struct {
	Columns []string `placeholder:"NAME,…" help:"Columns to print, in this order; --columns help names them all."`
	JSON    bool     `name:"json" help:"Print the API's document."`
}

// list is how one of the API's lists is printed.
type list[T any] struct {
	name    string      // of the list in its document
	columns []column[T] // all that there are
	usual   int         // how many of them are printed where no others are asked for
}

// column is a column of a table. A time is printed as an instant, on a terminal as an age.
type column[T any] struct {
	name string
	of   func(*T) any
}

// listOf describes a list by the names of its columns; a name counts once. What own has no value
// for is the member of the document with the column's name, such as created_at for created, or with
// the one after an equals sign, as in late-answer=late_answer.status.
func listOf[T any](name string, usual int, columns string, own map[string]func(*T) any) list[T] {
	l := list[T]{name: name, usual: usual}
	named := map[string]bool{}
	for _, spec := range strings.Fields(columns) {
		name, path, other := strings.Cut(spec, "=")
		if !other {
			path = strings.ReplaceAll(name, "-", "_")
		}
		of, ok := own[name]
		if !ok {
			of = member[T](path)
		}
		if !named[name] {
			l.columns = append(l.columns, column[T]{name, of})
		}
		named[name] = true
	}
	return l
}

// member returns the value of a row's member, or of a member's, such as late_answer.status; ""
// where there is none.
func member[T any](path string) func(*T) any {
	in, index := reflect.TypeFor[T](), []int(nil)
	for name := range strings.SplitSeq(path, ".") {
		f := fieldOf(in, name)
		in, index = f.Type, append(index, f.Index...)
	}
	return func(row *T) any {
		v, err := reflect.ValueOf(row).Elem().FieldByIndexErr(index)
		if err != nil { // a pointer on the way is nil
			return ""
		}
		return v.Interface()
	}
}

// fieldOf finds a member of a document by its name, or by what the name is without its end.
func fieldOf(doc reflect.Type, name string) reflect.StructField {
	if doc.Kind() == reflect.Pointer {
		doc = doc.Elem()
	}
	for f := range doc.Fields() {
		switch key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key {
		case name, name + "_at", name + "_id":
			return f
		}
	}
	panic("stet: a list has no column " + name)
}

// chosen returns the columns that were asked for.
func (l *list[T]) chosen(names []string) ([]column[T], error) {
	if len(names) == 0 {
		return l.columns[:l.usual], nil
	}
	known := each(l.columns, func(c *column[T]) string { return c.name })
	var columns []column[T]
	for _, name := range names {
		i := slices.Index(known, strings.ToLower(strings.TrimSpace(name)))
		if i < 0 {
			return nil, failf(exitUsage, "--columns: %q is no column%s; there are %s", name, spell.Hint(name, known),
				strings.Join(known, ", "))
		}
		columns = append(columns, l.columns[i])
	}
	return columns, nil
}

// check says whether the columns are there, before anything is opened.
func (l *list[T]) check(p *printed) error {
	return errorOf(l.chosen(p.Columns))
}

// whole prints a list that has no pages, and with --json the API's document of it. none is said of
// an empty list.
func (l *list[T]) whole(w *world, a *api, path string, p *printed, none string) error {
	return errorOf(shown(w, a, path, p.JSON, func(doc *map[string]json.RawMessage, w *world) error {
		var docs []json.RawMessage
		if err := json.Unmarshal((*doc)[l.name], &docs); err != nil {
			return fmt.Errorf("the list %s cannot be read: %w", l.name, err)
		}
		return l.show(w, docs, "", p, none)
	}))
}

// print reads as much as the flags say, and prints it. none is said of an empty list.
func (l *list[T]) print(w *world, rows adminclient.List[T], p *paged, none string) error {
	docs, next, err := rows.Raw().Take(w.ctx, p.Cursor, p.Limit)
	if err != nil {
		return err
	}
	return l.show(w, docs, next, &p.printed, none)
}

// show prints documents, and says where to go on.
func (l *list[T]) show(w *world, docs []json.RawMessage, next string, p *printed, none string) error {
	if p.JSON {
		return writeJSON(w.stdout, map[string]any{l.name: docs, "next_cursor": next})
	}
	if len(docs) == 0 && next == "" {
		fmt.Fprintln(w.stderr, none)
		return nil
	}
	rows := make([]T, len(docs))
	for i, doc := range docs {
		if err := json.Unmarshal(doc, &rows[i]); err != nil {
			return fmt.Errorf("an entry of the list cannot be read: %w", err)
		}
	}
	if err := l.rows(w, rows, p); err != nil {
		return err
	}
	if next != "" {
		fmt.Fprintf(w.stderr, "there are more: --cursor %s\n", visible(next))
	}
	return nil
}

// rows prints a table.
func (l *list[T]) rows(w *world, rows []T, p *printed) error {
	columns, err := l.chosen(p.Columns)
	if err != nil {
		return err
	}
	lines := [][]string{each(columns, func(c *column[T]) string {
		return strings.ToUpper(strings.ReplaceAll(c.name, "-", " "))
	})}
	for i := range rows {
		lines = append(lines, each(columns, func(c *column[T]) string { return w.cell(c.of(&rows[i])) }))
	}
	if w.width > 0 {
		fit(lines, w.width)
	}
	t := newTable(w.stdout)
	for _, line := range lines {
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	return t.Flush()
}

// gap is how far apart two columns are.
const gap = 2

// typed are the headings of columns whose cells are for commands to come. A part of one is of no
// use.
var typed = []string{"ID", "INCIDENT", "JOB", "NOTICE", "RECORD", "TRACE", "VERSION", "BASIS"}

// fit shortens the cells of the widest columns, until each line of a table has at most width
// characters, as far as that goes: headings, the first column and what is typed stay whole.
func fit(lines [][]string, width int) {
	const least = 8 // a cell that says less says nothing
	widths, sum := make([]int, len(lines[0])), -gap
	for j := range widths {
		for _, line := range lines {
			widths[j] = max(widths[j], utf8.RuneCountInString(line[j]))
		}
		sum += widths[j] + gap
	}
	for ; sum > width; sum-- {
		widest := 0
		for j, heading := range lines[0] {
			if j > 0 && widths[j] > max(least, len(heading)) && !slices.Contains(typed, heading) &&
				(widest == 0 || widths[j] > widths[widest]) {
				widest = j
			}
		}
		if widest == 0 {
			break
		}
		widths[widest]--
	}
	for _, line := range lines {
		for j := range line {
			line[j] = shortened(line[j], widths[j])
		}
	}
}

// shortened is a text of at most n characters, without its middle if it has more.
func shortened(s string, n int) string {
	all := []rune(s)
	if len(all) <= n {
		return s
	}
	return string(all[:n/2]) + "…" + string(all[len(all)-(n-1)/2:])
}

// cell is a value as a table has it: short for people, and exact for programs, which read no
// terminal.
func (w *world) cell(v any) string {
	t, isTime := v.(time.Time)
	switch {
	case !isTime:
		return visible(fmt.Sprint(v))
	case !w.terminal || t.IsZero():
		return instant(t)
	case time.Until(t) > 0:
		return "in " + age.Short(time.Until(t))
	}
	return age.Short(time.Since(t)) + " ago"
}

// when is an instant, on a terminal with its age.
func (w *world) when(t time.Time) string {
	if !w.terminal || t.IsZero() {
		return instant(t)
	}
	return instant(t) + " (" + w.cell(t) + ")"
}

// each is what of makes of each element of a list.
func each[T, R any](list []T, of func(*T) R) (all []R) {
	for i := range list {
		all = append(all, of(&list[i]))
	}
	return all
}

func newTable(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, gap, ' ', 0) }

// pairs prints names with their values, a line each, without those that have none. What a server
// says of itself can steer a terminal no more than what clients say.
func pairs(out io.Writer, namesAndValues ...string) error {
	t := newTable(out)
	for pair := range slices.Chunk(namesAndValues, 2) {
		if pair[1] != "" && pair[1] != "-" {
			fmt.Fprintf(t, "%s\t%s\n", pair[0], visible(pair[1]))
		}
	}
	return t.Flush()
}
