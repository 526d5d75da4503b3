package sqltext

import (
	"fmt"
	"strconv"
	"time"

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

// Trimming returns the statement that removes those of the first limit rows that are at least as
// old as age. It looks at no others: there is no index by instants, and rows are numbered about in
// their order. The statement of MySQL selects their numbers, for [MySQLTrim].
func (r *Reader) Trimming(age time.Duration, limit int) (statement string, args []any) {
	old, args := "at <= "+r.now+" - "+r.number, []any{age.Microseconds()}
	if r.Clock != nil {
		old, args = "at <= ?", []any{r.Clock() - age.Microseconds()}
	}
	first := fmt.Sprintf("SELECT id%%s FROM stet_history ORDER BY id LIMIT %d", limit)
	if r.kind == mysql {
		return "SELECT id FROM (" + fmt.Sprintf(first, ", at") + ") AS first WHERE " + old, args
	}
	return r.counted("DELETE FROM stet_history WHERE id IN (" + fmt.Sprintf(first, "") + ") AND " + old), args
}

// Erasing returns the statement that leaves of up to limit rows that q selects what
// [stet.Change.Erased] leaves. The statement of MySQL selects their numbers, for [MySQLErase].
func (r *Reader) Erasing(q *stet.HistoryQuery, limit int) (statement string, args []any) {
	c := &condition{Reader: r}
	if q.ID != (stet.ID{}) {
		c.and("scope = ? AND "+r.name("key")+" = ?", r.text.ID(nil, q.ID)...)
	}
	if q.Tag != "" {
		c.same("tag", q.Tag)
	}
	if q.Scope != "" {
		c.and("scope = ?", r.text(string(q.Scope)))
	}
	if q.Who != "" {
		c.same("who", q.Who)
	}
	few := fmt.Sprintf("SELECT id FROM stet_history%s ORDER BY id LIMIT %d", c.where(), limit)
	if r.kind == mysql {
		return few, c.args
	}
	return r.counted("UPDATE stet_history SET " + r.erased() + " WHERE id IN (" + few + ")"), c.args
}

// counted is a statement that tells how many rows it has changed where the driver does not.
func (r *Reader) counted(statement string) string {
	if r.kind == postgres {
		return "WITH changed AS (" + statement + " RETURNING 1) SELECT count(*) FROM changed"
	}
	return statement
}

// erased are the columns that say whom an entry is about, as they are afterwards.
func (d *Dialect) erased() string {
	return fmt.Sprintf("scope = '', %s = '', tag = '', why = '%s', evidence = '', notice = ''", d.name("key"), stet.WhyErased)
}

// MySQLTrim and MySQLErase return the statements for rows with these numbers: the server can use
// no such selection within the statement that changes without locking more than these.
func MySQLTrim(ids []int64) *MySQL {
	return new(MySQL).Add("DELETE FROM stet_history").numbered(ids)
}

// MySQLErase is like [MySQLTrim].
func MySQLErase(ids []int64) *MySQL {
	return new(MySQL).Add("UPDATE stet_history SET " + MySQLDialect.erased()).numbered(ids)
}

func (q *MySQL) numbered(ids []int64) *MySQL {
	q.Add(" WHERE id IN (")
	for i, id := range ids {
		if i > 0 {
			q.Add(", ")
		}
		q.Int(id)
	}
	return q.Add(")")
}
