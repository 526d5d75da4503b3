package sqltext

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// condition is a WHERE clause in the making. Each ? of it stands for an argument.
type condition struct {
	*Reader
	parts []string
	args  []any
	by    *stet.Query // SQLite: only the indexes of columns that this query names may serve; nil: all
}

func (c *condition) and(part string, args ...any) {
	c.parts, c.args = append(c.parts, part), append(c.args, args...)
}

func (c *condition) where() string {
	if len(c.parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.parts, " AND ")
}

// column hides a column from SQLite's planner if its index is not the one to go by: the planner has
// no statistics to choose with.
func (c *condition) column(name string, leads bool) string {
	if c.by == nil || leads {
		return c.name(name)
	}
	return "+" + c.name(name)
}

// since compares the instant of a record's creation with one that lies d ago.
func (c *condition) since(operator string, d time.Duration) {
	if c.Clock != nil {
		c.and("created_at "+operator+" ?", c.Clock()-d.Microseconds())
		return
	}
	c.and("created_at "+operator+" "+c.now+" - "+c.number, d.Microseconds())
}

// choose adds what q selects. It gives the same answer as [stet.Query.Matches], except that it may
// pass more records where q asks for packed fields: see [packed]. States are words of this package
// and stand in the text, where Postgres's planner sees which of its partial indexes serve.
func (c *condition) choose(q *stet.Query) *condition {
	by := cmp.Or(c.by, q)
	state := c.column("state", len(by.States) > 0)
	switch words := stateWords(q.States); len(words) {
	case 0:
	case 1:
		c.and(state + " = " + words[0])
	default:
		c.and(state + " IN (" + strings.Join(words, ", ") + ")")
	}
	if q.Scope != "" {
		c.and(c.column("scope", by.Scope != "")+" = ?", c.text(string(q.Scope)))
	}
	if q.Tag != "" {
		c.and(c.column("tag", by.Tag != "")+" = ?", Tag(q.Tag)) // nothing is equal to NULL
	}
	for _, exactly := range [...]struct {
		column, value string
		leads         bool
	}{{"key", string(q.Key), by.Key != ""}, {"route", q.Route, true}, {"cause", q.Cause, true}} {
		if exactly.value != "" {
			c.and(c.column(exactly.column, exactly.leads)+" = ?", c.text(exactly.value))
		}
	}
	for _, only := range []stet.Head{{Path: q.Path}, {Method: q.Method}, {TraceID: q.TraceID}} {
		if packed := codec.AppendHead(nil, &only); len(packed) > 0 {
			c.and(c.within, packed)
		}
	}
	if q.Failed {
		c.and(c.column("state", by.Failed) + " = 'completed' AND status >= 500")
	}
	if q.Succeeded {
		c.and(state + " = 'completed' AND status < 500")
	}
	if q.Escalated {
		c.and(fmt.Sprintf("%s = 'unknown' AND flags & %d <> 0", state, flagEscalated))
	}
	if q.OlderThan > 0 {
		c.since("<=", q.OlderThan)
	}
	if q.NewerThan > 0 {
		c.since(">", q.NewerThan)
	}
	return c
}

// packed returns the part of q that asks for fields of the packed head. In there the database finds
// the bytes that such a field is encoded in. Other fields may happen to contain these bytes, so the
// records that pass are compared once more.
func packed(q *stet.Query) stet.Query {
	return stet.Query{Path: q.Path, Method: q.Method, TraceID: q.TraceID}
}

func stateWords(states []stet.State) (words []string) {
	for _, st := range states {
		words = append(words, "'"+st.String()+"'")
	}
	return words
}

// same adds that a text column of the history, whose values may be of any length, has this value.
func (c *condition) same(column, value string) {
	part := fmt.Sprintf(c.long, column)
	c.and(part)
	for range strings.Count(part, "?") {
		c.args = append(c.args, c.text(value))
	}
}
