package sqltext

import (
	"strconv"

	"github.com/stet-dev/stet"
)

// historyColumns are the columns of a [stet.Change], after the number of its row.
const historyColumns = "scope, key, was, became, attempt, at, who, why, evidence, notice, action, tag"

// changeRow is a row of the history.
type changeRow struct {
	ID          int64
	scope, key  string
	was, became string
	at          int64
	c           stet.Change
}

// Dest returns the destinations of a row.
func (r *changeRow) Dest() []any {
	n := &r.c.Note
	return []any{&r.ID, &r.scope, &r.key, &r.was, &r.became, &r.c.Attempt, &r.at, &n.Who, &n.Why, &n.Evidence, &n.Notice, &n.Action, &r.c.Tag}
}

// Change returns the change in the row. An entry that changed no record has no states.
func (r *changeRow) Change(k kind) (stet.Change, error) {
	n := &r.c.Note
	texts := []*string{&r.scope, &r.key, &n.Who, &n.Why, &n.Evidence, &n.Notice, &n.Action, &r.c.Tag}
	if k == postgres && unescape(texts...) != nil {
		return r.c, corrupt("text in row " + strconv.FormatInt(r.ID, 10) + " of the history")
	}
	c := r.c
	var err, err2 error
	if r.was != "" || r.became != "" {
		c.From, err = stet.ParseState(r.was)
		c.To, err2 = stet.ParseState(r.became)
	}
	if err != nil || err2 != nil {
		return c, corrupt("a state in row " + strconv.FormatInt(r.ID, 10) + " of the history")
	}
	c.ID, c.At = stet.ID{Scope: stet.Scope(r.scope), Key: stet.Key(r.key)}, instant(r.at)
	return c, nil
}

// Appended returns the arguments of a row without a change, in the order of its columns, except the
// states and the instant.
func (text Encoder) Appended(c *stet.Change) []any {
	return text.note(append(text.ID(nil, c.ID), int64(c.Attempt)), &c.Note, c.Tag)
}

// note appends the arguments of a note, and of the tag of the record that it is about.
func (text Encoder) note(args []any, n *stet.Note, tag string) []any {
	return append(args, text(n.Who), text(n.Why), text(n.Evidence), text(n.Notice), text(n.Action), text(tag))
}

// maxLook is how many rows a page reads if the query has more than one filter.
const maxLook = 1000

// historyLook is how many rows a page reads. They come newest first, selected by the filter that an
// index serves; the page applies the others.
func historyLook(q *stet.HistoryQuery) int {
	filters := 0
	for _, set := range []bool{q.ID != stet.ID{}, q.Tag != "", q.Scope != "", q.Who != ""} {
		if set {
			filters++
		}
	}
	if filters > 1 {
		return maxLook
	}
	return q.Bound()
}
