package sqltext

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/walk"
)

// Reader reads pages of records and of the history. The databases share its statements, but for
// what [Dialect] says.
type Reader struct {
	*Dialect
	// Run sends a statement, in which each ? stands for an argument, and has row scan each row of
	// the answer.
	Run func(ctx context.Context, statement string, args []any, row func(Scanner) error) error
	// Clock is the store's clock, in microseconds since 1970. Nil means that the database's clock
	// counts.
	Clock func() int64
}

// Scanner is a row of an answer.
type Scanner interface{ Scan(dest ...any) error }

// Dialect is what the databases have to be told in different ways.
type Dialect struct {
	kind   kind
	quote  string // around the name of a column
	text   Encoder
	now    string // the database's clock
	number string // a place for a number whose type the database cannot tell
	long   string // compares a column of the history with a value of any length
	within string // whether the packed head contains some bytes
}

type kind int

const (
	sqlite kind = iota
	postgres
	mysql
)

// The dialects.
var (
	SQLiteDialect   = &Dialect{sqlite, "", SQLiteText, "0", "?", "%[1]s = ?", "instr(head, ?) > 0"}
	PostgresDialect = &Dialect{postgres, "", PostgresEncoder, PostgresNow, "?::bigint", "md5(%[1]s) = md5(?::text) AND %[1]s = ?::text",
		"position(?::bytea IN head) > 0"}
	MySQLDialect = &Dialect{mysql, "`", mysqlText, MySQLNow, "?", "`%[1]s_sum` = CRC32(?) AND `%[1]s` = ?", "INSTR(`head`, ?) > 0"}
)

// Unread is why a row could not be scanned, which failed with err. A column of another type is
// damage. But database/sql closes the rows of a context or a transaction that has ended, also
// between Next and Scan: that says nothing about the record, nor whether the statement has written.
func Unread(ctx context.Context, err error) error {
	switch ended := ctx.Err(); {
	case ended != nil:
		return ended
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // of the transaction
		return err
	}
	return errColumn
}

// EachRow reads the rows of an answer of database/sql.
func EachRow(rows *sql.Rows, err error, row func(Scanner) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

var (
	errCursor = errors.New("that is no cursor of this store")
	// errColumn does not say what the column holds: that is not for logs.
	errColumn = corrupt("a column holds another type than it should")
)

// Row returns a row to scan.
func (d *Dialect) Row() Row { return Row{kind: d.kind} }

func (d *Dialect) name(column string) string { return d.quote + column + d.quote }

func (d *Dialect) names(columns ...[]string) string { return list(d.quote+"%s"+d.quote, columns...) }

// heads is what a page selects.
func (d *Dialect) heads() string {
	return "SELECT " + d.now + " AS now, id, due_at AS due, " + d.names(headColumns)
}

// find selects the records that have a downstream name. The conditions against the empty text
// let planners use partial indexes. Nothing in Postgres keeps two rows from having one id, so that
// others may be among them.
func (d *Dialect) find(scoped string) string {
	return d.heads() + fmt.Sprintf(" FROM (SELECT id AS found FROM stet_records WHERE downstream_key = ? AND downstream_key <> ''"+scoped+
		" UNION SELECT id FROM stet_records WHERE downstream_id = ? AND downstream_id <> ''"+scoped+" ORDER BY found DESC LIMIT %d) AS few"+
		" JOIN stet_records ON id = found ORDER BY id DESC", stet.DefaultLimit)
}

// rowID is the number of a row, or its 16 bytes in MySQL. Cursors hold nothing of keys.
type rowID struct{ v any }

// Scan implements [sql.Scanner].
func (r *rowID) Scan(v any) error {
	if b, ok := v.([]byte); ok {
		v = slices.Clone(b)
	}
	r.v = v
	return nil
}

func (r rowID) String() string {
	if b, ok := r.v.([]byte); ok {
		return hex.EncodeToString(b)
	}
	return fmt.Sprint(r.v)
}

func (d *Dialect) parse(cursor string) (r rowID, err error) {
	if d.kind != mysql {
		r.v, err = strconv.ParseInt(cursor, 10, 64)
	} else if b, err2 := hex.DecodeString(cursor); err2 != nil || len(b) != 16 {
		err = errCursor
	} else {
		r.v = b
	}
	if err != nil {
		return rowID{}, errCursor
	}
	return r, nil
}

// place is where a row stands among those that are due.
type place struct {
	due sql.NullInt64
	id  rowID
}

func (p place) String() string { return strconv.FormatInt(p.due.Int64, 10) + "." + p.id.String() }

func (d *Dialect) parsePlace(cursor string) (p place, err error) {
	due, id, _ := strings.Cut(cursor, ".")
	if p.due.Int64, err = strconv.ParseInt(due, 10, 64); err != nil {
		return p, errCursor
	}
	p.id, err = d.parse(id)
	return p, err
}

func (r *Reader) condition(q *stet.Query) *condition { return (&condition{Reader: r}).choose(q) }

// page reads limit heads at most that q selects, out of so many rows; the statement asks for one
// row more, which tells that there is another page. Records that cannot be read are left out.
func (r *Reader) page(
	ctx context.Context, statement string, args []any, q *stet.Query, limit, rows int, cursor func(place) string,
) (heads []stet.Head, next string, err error) {
	detail := packed(q)
	page := walk.Page[stet.Head, place]{Most: limit, Look: rows}
	err = r.Run(ctx, statement, args, func(s Scanner) error {
		row, here, now := r.Row(), place{}, int64(0)
		err := s.Scan(append([]any{&now, &here.id, &here.due}, row.Dest()...)...)
		if err != nil && r.kind != sqlite { // whose columns take values of any type
			return Unread(ctx, err)
		}
		if !page.Takes(here) {
			return errEnough
		}
		if r.Clock != nil {
			now = r.Clock()
		}
		if h, unread := row.Head(now); unread == nil && err == nil && detail.Matches(&h) {
			page.Rows = append(page.Rows, h)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, "", err
	}
	return page.Rows, page.Next(cursor), nil
}

// errEnough ends the reading of an answer.
var errEnough = errors.New("the page is full")

// List implements [stet.Lister], newest first.
func (r *Reader) List(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	by, err := r.leading(ctx, &q)
	if err != nil {
		return nil, "", err
	}
	c, from := &condition{Reader: r}, &condition{Reader: r}
	if r.kind == sqlite {
		c.by = cmp.Or(by, &stet.Query{}) // none: by the rows, and no index
	}
	c.choose(&q)
	later, upTo, order := direction(&q)
	if q.After != "" {
		after, err := r.parse(q.After)
		if err != nil {
			return nil, "", err
		}
		from.and("id "+later+" ?", after.v)
		c.and("id "+later+" ?", after.v)
	}
	rows, args := r.rows(by)
	end := rowID{}
	if by == nil && sifts(&q) { // the page looks through rows up to there
		statement := fmt.Sprintf("SELECT id FROM %s%s ORDER BY id %s LIMIT 1 OFFSET %d", rows, from.where(), order, Look-1)
		if err := r.Run(ctx, statement, from.args, func(s Scanner) error { return s.Scan(&end) }); err != nil {
			return nil, "", err
		}
	}
	if end.v != nil {
		c.and("id "+upTo+" ?", end.v) // as NOT id < ?, SQLite would look at all rows
	}
	statement := fmt.Sprintf("%s FROM %s%s ORDER BY id %s LIMIT %d", r.heads(), rows, c.where(), order, q.Bound()+1)
	heads, next, err = r.page(ctx, statement, append(args, c.args...), &q, q.Bound(), q.Bound(), func(p place) string { return p.id.String() })
	if next == "" && err == nil && end.v != nil {
		next = end.String()
	}
	return heads, next, err
}

// rows is what a list reads from, so that it goes by the index that by names, or by the order of
// the rows where by is nil. Without that MySQL would walk all rows in their order, and Postgres
// would, too, if its statistics say so.
func (r *Reader) rows(by *stet.Query) (from string, args []any) {
	switch {
	case r.kind == mysql:
		return "stet_records" + mysqlIndex(by), nil
	case r.kind == postgres && by != nil:
		few := r.condition(by)
		return "(SELECT * FROM stet_records" + few.where() + " OFFSET 0) few", few.args
	}
	return "stet_records", nil
}

func mysqlIndex(by *stet.Query) string {
	name := "PRIMARY"
	switch {
	case by == nil:
		name = "stet_records_id"
	case by.Tag != "":
		name = "stet_records_tag"
	case by.Failed:
		name = "stet_records_status"
	case len(by.States) > 0:
		name = "stet_records_due"
	}
	return " FORCE INDEX (" + name + ")"
}

// Find implements [stet.Finder], newest first.
func (r *Reader) Find(ctx context.Context, scope stet.Scope, name string) ([]stet.Head, error) {
	if name == "" {
		return nil, nil
	}
	scoped, args := "", []any{r.text(name), r.text(name)}
	if scope != "" {
		scoped, args = " AND scope = ?", []any{r.text(name), r.text(string(scope)), r.text(name), r.text(string(scope))}
	}
	heads, _, err := r.page(ctx, r.find(scoped), args, &stet.Query{}, stet.DefaultLimit, stet.DefaultLimit, place.String)
	return slices.DeleteFunc(heads, func(h stet.Head) bool { return h.DownstreamKey != name && h.DownstreamID != name }), err
}

// Due implements [stet.Store]: earliest first, and by row where that is the same instant. It locks
// nothing, and waits for no lock.
func (r *Reader) Due(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	var from place
	if q.After != "" {
		if from, err = r.parsePlace(q.After); err != nil {
			return nil, "", err
		}
	}
	rows := q.Bound()
	if r.kind == sqlite {
		rows = stet.MaxLimit // which are read one by one, until the page is full
	}
	statement, args := r.due(q, from, strconv.Itoa(rows+1))
	return r.page(ctx, statement, args, &q, q.Bound(), rows, place.String)
}

// due is one walk of the index for each state, merged: records of other states are not passed over
// one by one, nor are those of earlier pages. One statement makes all walks, so that a record that
// changes its state meanwhile is seen once.
//
// MySQL needs two walks to go on within an instant: to its server a comparison of pairs is no range
// of an index, and neither is a range that begins within an instant and ends after it. What is left
// of the instant may be a million records.
//
// Postgres chooses a plan by statistics, which know nothing of what has just piled up: by them a
// backlog of a million is a handful of rows, to be read and sorted together for the first hundred.
// Hence the second LIMIT of a walk. It cuts nothing off, but the planner cannot see its number; it
// then expects that a tenth of the rows is wanted, and walks in order.
func (r *Reader) due(q stet.Query, from place, most string) (statement string, args []any) {
	ordered := " ORDER BY due_at, id LIMIT " + most
	after, afterArgs := []string{""}, [][]any{nil}
	switch {
	case from.id.v == nil:
	case r.kind == mysql:
		after = []string{"due_at = ? AND id > ?", "due_at > ?"}
		afterArgs = [][]any{{from.due.Int64, from.id.v}, {from.due.Int64}}
	default:
		after, afterArgs = []string{fmt.Sprintf(dueAfter, r.number)}, [][]any{{from.due.Int64, from.id.v}}
	}
	var walks []string
	for _, st := range statesOf(&q) {
		q.States = []stet.State{st}
		for i := range after {
			c := r.condition(&q)
			switch r.kind {
			case sqlite:
				c.and(SQLiteDue, r.Clock())
			case postgres:
				c.and("due_at <= (SELECT now FROM t)")
			case mysql:
				c.and("due_at <= " + r.now)
			}
			if after[i] != "" {
				c.and(after[i], afterArgs[i]...)
			}
			one := r.heads() + " FROM stet_records" + c.where()
			switch r.kind {
			case sqlite:
			case postgres:
				one = "(SELECT * FROM (SELECT * FROM stet_records" + c.where() + ordered + ") few LIMIT (SELECT " + most + "))"
			case mysql:
				one = r.heads() + " FROM stet_records FORCE INDEX (stet_records_due)" + c.where() + ordered
			}
			walks, args = append(walks, one), append(args, c.args...)
		}
	}
	switch {
	case r.kind == postgres:
		return "WITH t AS MATERIALIZED (SELECT " + r.now + " AS now) SELECT t.now, s.id, s.due_at, " + postgresRead(headColumns) +
			" FROM t, (" + strings.Join(walks, " UNION ALL ") + ") s ORDER BY s.due_at, s.id LIMIT " + most, args
	case r.kind == mysql && len(walks) == 1:
		return walks[0], args
	case r.kind == mysql:
		return "(" + strings.Join(walks, ") UNION ALL (") + ")" + ordered, args
	}
	return strings.Join(walks, " UNION ALL ") + ordered, args
}

// dueAfter is the condition of a row behind a place.
const dueAfter = "(due_at, id) > (%[1]s, %[1]s)"

// statesOf are the states that q asks for, each once.
func statesOf(q *stet.Query) []stet.State {
	if len(q.States) == 0 {
		return []stet.State{stet.Running, stet.Completed, stet.Retryable, stet.Unknown, stet.Expired}
	}
	return slices.Compact(slices.Sorted(slices.Values(q.States)))
}

// History implements the method of [stet.Historian]. A row that cannot be read is
// [stet.ErrCorrupt], because a history with gaps is no evidence.
func (r *Reader) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	c := &condition{Reader: r}
	switch {
	case q.ID != stet.ID{}:
		c.and("scope = ? AND "+r.name("key")+" = ?", r.text.ID(nil, q.ID)...)
	case q.Tag != "":
		c.same("tag", q.Tag)
	case q.Who != "":
		c.same("who", q.Who)
	case q.Scope != "":
		c.and("scope = ?", r.text(string(q.Scope)))
	}
	if q.After != "" {
		after, err := strconv.ParseInt(q.After, 10, 64)
		if err != nil {
			return nil, "", errCursor
		}
		c.and("id < ?", after)
	}
	page := walk.Page[stet.Change, int64]{Most: q.Bound(), Look: historyLook(&q)}
	statement := fmt.Sprintf("SELECT id, %s FROM stet_history%s ORDER BY id DESC LIMIT %d",
		r.names(strings.Split(historyColumns, ", ")), c.where(), page.Look+1)
	err := r.Run(ctx, statement, c.args, func(s Scanner) error {
		var row changeRow
		if err := s.Scan(row.Dest()...); err != nil {
			return Unread(ctx, err)
		}
		change, err := row.Change(r.kind)
		if err == nil && !page.More {
			page.Add(row.ID, change, q.Matches(&change))
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return page.Rows, page.Next(func(id int64) string { return strconv.FormatInt(id, 10) }), nil
}
