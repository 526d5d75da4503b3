package sqltext

import (
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
)

// What a row can hold.
const (
	MySQLNameSize = 1024      // MySQLNameSize is how many bytes a scope has at most, and a key
	mysqlBlobSize = 1<<24 - 1 // bytes of any other column, but for the bodies
)

// MySQLNow is the server's clock in microseconds since 1970. Unlike NOW and SYSDATE it does not
// depend on the session's time zone. It is the instant at which the statement began: a statement
// that waits for a row stamps an instant before its wait.
const MySQLNow = "CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS SIGNED)"

// mysqlTell is MySQLNow, and makes the reply to the statement contain it: LAST_INSERT_ID(x) is in
// the reply to INSERT and UPDATE. So neither needs RETURNING, which MySQL does not have, nor a
// second statement. An UPDATE that matched no row replies 0, which is more than its count of rows
// says: that is 0 also if a row matched and did not change.
const mysqlTell = "LAST_INSERT_ID(" + MySQLNow + ")"

// The columns of a SELECT: the server's clock, and what [Row] scans.
var (
	MySQLHeads = "SELECT " + MySQLNow + ", " + list("`%s`", headColumns) + " FROM stet_records"
	// MySQLVersions is what the writer of many rows needs to know about each of them.
	MySQLVersions = "SELECT " + MySQLNow + ", `scope`, `key`, `version`, `schema`, `updated_at` FROM stet_records"

	mysqlHead    = list("`%s`", []string{"id"}, identity, head)
	mysqlBody    = list("`%s`", body)
	mysqlStamped = list("`%s`", []string{"schema"}, instants)
)

var mysqlText Encoder = func(s string) any { return []byte(s) }

// MySQL is a statement under construction. Values are written into it as literals, which takes one
// round trip instead of the three of a prepared statement, for any number of rows. Bytes are
// written in hexadecimal, which means the same under every character set and sql_mode; large values
// are left to the driver. If a statement is used often and is kept, all values are arguments.
type MySQL struct {
	Text []byte
	Args []any
	Kept bool
}

// mysqlLarge is the size from which a value is sent as an argument: twice its size in text would
// cost more than three round trips.
const mysqlLarge = 16 << 10

// Records begins a SELECT of records, whose bodies have at most that many bytes if they are read.
func (q *MySQL) Records(most int64) *MySQL {
	return q.Add(mysqlRecords[0]).Int(most).Add(mysqlRecords[1])
}

var mysqlRecords = strings.Split("SELECT "+MySQLNow+", "+list("`%s`", headColumns)+", "+fitting("", "LENGTH", "?")+" FROM stet_records", "?")

// Add appends SQL.
func (q *MySQL) Add(sql string) *MySQL {
	q.Text = append(q.Text, sql...)
	return q
}

// Fill appends SQL in which each ? stands for a value.
func (q *MySQL) Fill(sql string, values ...any) *MySQL {
	for _, v := range values {
		before, after, _ := strings.Cut(sql, "?")
		q.Add(before).Value(v)
		sql = after
	}
	return q.Add(sql)
}

// Value appends a value.
func (q *MySQL) Value(v any) *MySQL {
	if q.Kept {
		q.Args = append(q.Args, v)
		return q.Add("?")
	}
	switch v := v.(type) {
	case nil:
		q.Add("NULL")
	case bool:
		q.Int(map[bool]int64{true: 1}[v])
	case int:
		q.Int(int64(v))
	case int64:
		q.Int(v)
	case sql.NullInt64:
		if v.Valid {
			return q.Int(v.Int64)
		}
		q.Add("NULL")
	case string:
		q.Bytes([]byte(v))
	case []byte:
		if v == nil {
			return q.Add("NULL")
		}
		q.Bytes(v)
	default:
		panic(fmt.Sprintf("sqltext: no literal for %T", v))
	}
	return q
}

// Int appends a number.
func (q *MySQL) Int(n int64) *MySQL {
	if q.Kept {
		q.Args = append(q.Args, n)
		return q.Add("?")
	}
	q.Text = strconv.AppendInt(q.Text, n, 10)
	return q
}

// Bytes appends bytes.
func (q *MySQL) Bytes(b []byte) *MySQL {
	if q.Kept || len(b) > mysqlLarge {
		q.Args = append(q.Args, b)
		return q.Add("?")
	}
	q.Text = append(hex.AppendEncode(append(q.Text, "x'"...), b), '\'')
	return q
}

// Whose appends the condition that a record has the name id.
func (q *MySQL) Whose(id stet.ID) *MySQL {
	return q.Add("`scope` = ").Bytes([]byte(id.Scope)).Add(" AND `key` = ").Bytes([]byte(id.Key))
}

// If appends the condition that the record has this name, this version, and a format that this
// program may overwrite.
func (q *MySQL) If(id stet.ID, prev stet.Version) *MySQL {
	return q.Whose(id).Add(" AND `version` = ").Int(int64(prev)).Add(" AND `schema` = ").Int(Schema)
}

// MySQLWrite is what is written of a record, except the instants, which are the server's.
type MySQLWrite struct {
	values []any // of the columns mysqlHead and, if whole, mysqlBody
	whole  bool
	h      *stet.Head

	// Known is the store that a new record is for: in another one, or in one with a lower mark, the
	// statement fails with 1048, and changes nothing. Without an ID it is for any.
	Known stet.Identity
}

// NewMySQLWrite returns an error for a record that no row can hold. If b is nil, the stored body
// stays. What is written refers to no memory of h or b but to what h says of instants. order is the
// place of a new record in lists.
func NewMySQLWrite(order [16]byte, h *stet.Head, b *stet.Body) (*MySQLWrite, error) {
	if err := mysqlName(h.ID); err != nil {
		return nil, err
	}
	values := append(make([]any, 0, 48), order[:])
	values, err := mysqlText.Head(mysqlText.ID(values, h.ID), h)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		if v, ok := v.([]byte); ok && len(v) > mysqlBlobSize {
			return nil, fmt.Errorf("%w: a value of its head has more than %d bytes", stet.ErrRefused, mysqlBlobSize)
		}
	}
	if b != nil {
		values = Body(values, h.ID, b)
	}
	return &MySQLWrite{values: values, whole: b != nil, h: h}, nil
}

func mysqlName(id stet.ID) error {
	if len(id.Scope) > MySQLNameSize || len(id.Key) > MySQLNameSize {
		return fmt.Errorf("%w: its scope or key has more than %d bytes", stet.ErrRefused, MySQLNameSize)
	}
	return nil
}

// Large reports whether a value is sent as an argument. Such a write shares no statement with
// others.
func (w *MySQLWrite) Large() bool {
	return slices.ContainsFunc(w.values, func(v any) bool { b, ok := v.([]byte); return ok && len(b) > mysqlLarge })
}

// Size returns how many bytes the values take at most on their way to the server.
func (w *MySQLWrite) Size() int {
	const value = 8 // of what is no text
	n := 0
	for _, v := range w.values {
		switch b, ok := v.([]byte); {
		case !ok:
			n += 3 * value // as text
		case len(b) > mysqlLarge:
			n += len(b) + value
		default:
			n += 2*len(b) + value
		}
	}
	return n
}

// AddValues appends the values and a comma.
func (w *MySQLWrite) AddValues(q *MySQL) {
	for _, v := range w.values {
		q.Value(v).Add(", ")
	}
	if !w.whole {
		q.Add("'', ")
	}
}

// AddBirth appends the instants of a new record. If tell is set, the reply contains when that was.
func (w *MySQLWrite) AddBirth(q *MySQL, tell bool) {
	if w.Known.ID == "" {
		q.Add(mysqlSchema)
	} else {
		q.Add("(" + mysqlSchemaOf).Bytes([]byte(w.Known.ID)).Add(" AND `mark` >= ").Int(w.Known.Mark).Add("), ")
	}
	if w.h.DueIn < 0 {
		q.Add("NULL, ")
	} else {
		q.Add(MySQLNow + " + ").Int(w.h.DueIn.Microseconds()).Add(", ")
	}
	updated, ended := MySQLNow, "NULL"
	if tell {
		updated = mysqlTell
	}
	if w.h.State == stet.Completed {
		ended = MySQLNow
	}
	q.Add(updated).Add(", " + MySQLNow + ", ").Add(ended)
}

// AddStamp appends the instants s.
func (*MySQLWrite) AddStamp(q *MySQL, s *Stamp) {
	q.Add(mysqlSchema).Value(sql.NullInt64{Int64: s.Due, Valid: !s.Never}).Add(", ").Int(s.Updated).Add(", ").Int(s.Created).Add(", ").
		Value(sql.NullInt64{Int64: s.Ended, Valid: s.Ended != 0})
}

var (
	mysqlSchema   = fmt.Sprintf("%d, ", Schema)
	mysqlSchemaOf = fmt.Sprintf("SELECT %d FROM stet_store WHERE `one` = 1 AND `id` = ", Schema)
)

// Into begins an INSERT of writes like w. It names the body also where that stays: a strict server
// refuses an INSERT that leaves out a column without a default, even if it is to insert nothing.
func (w *MySQLWrite) Into(q *MySQL) {
	q.Add("INSERT INTO stet_records (" + mysqlHead + ", " + mysqlBody + ", " + mysqlStamped + ") ")
}

// Over ends an INSERT of rows that exist and are locked: it changes them instead.
func (w *MySQLWrite) Over(q *MySQL) {
	q.Add(" ON DUPLICATE KEY UPDATE " + mysqlOverHead)
	if w.whole {
		q.Add(", " + mysqlOverBody)
	}
}

var (
	mysqlOverHead = list("`%[1]s` = VALUES(`%[1]s`)", head, instants)
	mysqlOverBody = list("`%[1]s` = VALUES(`%[1]s`)", body)
)

// Insert appends the statement that stores a new record. It fails with 1062, and changes nothing,
// if the name is taken. If look is set, it stores only if the name is free as far as can be seen
// without waiting for a lock; its count of rows tells. It never uses IGNORE, which would also
// ignore a value that does not fit.
func (w *MySQLWrite) Insert(q *MySQL, look bool) *MySQL {
	w.Into(q)
	if look {
		q.Add("SELECT ")
	} else {
		q.Add("VALUES (")
	}
	w.AddValues(q)
	w.AddBirth(q, true)
	if look {
		return q.Add(" FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM stet_records WHERE ").Whose(w.h.ID).Add(")")
	}
	return q.Add(")")
}

// Update appends the statement that changes a record of the version prev. A record's time never
// goes back, whatever the server's clock does. The reply contains when the record was changed, or 0
// if there is none of this version.
func (w *MySQLWrite) Update(q *MySQL, prev stet.Version) *MySQL {
	const at = "GREATEST(" + MySQLNow + ", `updated_at`)"
	q.Add("UPDATE stet_records SET ")
	columns := mysqlAssigned[:len(head)]
	if w.whole {
		columns = mysqlAssigned
	}
	for i, c := range columns {
		q.Add(c).Value(w.values[1+len(identity)+i]).Add(", ")
	}
	// Assignments are made from left to right, so values computed from updated_at come before it
	// changes.
	s := Changed(w.h, 0)
	q.Add("`due_at` = ")
	if s.Never {
		q.Add("NULL")
	} else {
		q.Add(at + " + ").Int(s.Due)
	}
	if s.Created == 0 {
		q.Add(", `created_at` = " + at)
	}
	q.Add(", `completed_at` = ")
	switch {
	case s.Ended != 0:
		q.Int(s.Ended)
	case w.h.State == stet.Completed:
		q.Add(at)
	default:
		q.Add("NULL")
	}
	return q.Add(", `updated_at` = LAST_INSERT_ID("+at+") WHERE ").If(w.h.ID, prev)
}

// mysqlAssigned are the columns of [MySQLWrite.Update], each with its sign of equality.
var mysqlAssigned = strings.Split(list("`%s` = ", head, body), ", ")

// MySQLNoted returns the statement that adds h's note to the history. The change ended the state
// was at the instant at.
func MySQLNoted(h *stet.Head, was string, at int64) *MySQL {
	return mysqlEntry(&stet.Change{ID: h.ID, Tag: h.Tag, Attempt: h.Attempt, Note: *h.Note}, was, h.State.String(), strconv.FormatInt(at, 10))
}

// MySQLAppend returns the statement that adds an entry without a change, or an error if no row can
// hold it.
func MySQLAppend(c *stet.Change) (*MySQL, error) {
	if err := mysqlName(c.ID); err != nil {
		return nil, err
	}
	return mysqlEntry(c, "", "", MySQLNow), nil
}

func mysqlEntry(c *stet.Change, was, became, at string) *MySQL {
	return new(MySQL).Add("INSERT INTO stet_history (" + mysqlHistory + ") VALUES (").values(mysqlText.ID(nil, c.ID)).Add(", ").
		values([]any{was, became, c.Attempt}).Add(", " + at + ", ").values(mysqlText.note(nil, &c.Note, c.Tag)).Add(")")
}

func (q *MySQL) values(all []any) *MySQL {
	for i, v := range all {
		if i > 0 {
			q.Add(", ")
		}
		q.Value(v)
	}
	return q
}

// MySQLDatabase names the database of a session, and its server: a copy has the same row.
const MySQLDatabase = "SELECT CONCAT_WS('/', `id`, DATABASE(), @@GLOBAL.hostname, @@GLOBAL.port, @@GLOBAL.server_id, @@GLOBAL.datadir) " +
	"FROM stet_database WHERE `one` = 1"

// Which store it is: [ScanMySQLStore] reads it. Its mark is raised if it has this ID, and this mark
// at least.
const (
	MySQLStore = "SELECT `id`, `mark`, `trail`, `made`, `replaces` FROM stet_store WHERE `one` = 1"
	MySQLRaise = "UPDATE stet_store SET `mark` = `mark` + 1, `trail` = LEFT(CONCAT(?, `trail`), ?) WHERE `one` = 1 AND `id` = ? AND `mark` >= ?"
)

// MySQLVerify has the server check the store's tables.
const MySQLVerify = "CHECK TABLE stet_records, stet_history, stet_store, stet_database, stet_outbox EXTENDED"

// ScanMySQLStore reads a row of [MySQLStore].
func ScanMySQLStore(row Scanner) (now stet.Identity, err error) {
	var made int64
	var replaces []byte
	if err = row.Scan(&now.ID, &now.Mark, &now.Trail, &made, &replaces); err == nil {
		now.Made, now.Replaces = time.UnixMicro(made).UTC(), strings.Fields(string(replaces))
	}
	return now, err
}

// MySQLMakeStore returns the statement that says which store it is from now on, if it was the one
// with the ID was: "" for none.
func MySQLMakeStore(was string, next *stet.Identity) *MySQL {
	values := []any{next.ID, next.Mark, next.Trail, next.Made.UnixMicro(), strings.Join(next.Replaces, " ")}
	if was == "" {
		return new(MySQL).Add("INSERT INTO stet_store (`one`, `id`, `mark`, `trail`, `made`, `replaces`) VALUES (1, ").values(values).Add(")")
	}
	return new(MySQL).Fill("UPDATE stet_store SET `id` = ?, `mark` = ?, `trail` = ?, `made` = ?, `replaces` = ? WHERE `one` = 1 AND `id` = ?",
		append(values, was)...)
}

var mysqlHistory = list("`%s`", strings.Split(historyColumns, ", "))
