package sqltext

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed postgres/*.sql
var postgresFiles embed.FS

// PostgresMigrations are the numbered steps to today's schema. Each is several statements: see [Statements].
func PostgresMigrations() fs.FS { return postgresFiles }

// PostgresNow is the server's clock in microseconds since 1970: not when the transaction began, as now() is.
const PostgresNow = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

// Columns of a SELECT, as [Row] scans them.
var (
	PostgresHead   = postgresRead(identity, head, instants)
	PostgresRecord = postgresRead(identity, head, instants, body)
)

func postgresRead(columns ...[]string) string { return list("s.%s", columns...) }

var (
	PostgresGet     = "SELECT " + PostgresNow + ", " + PostgresRecord + " FROM stet_records s WHERE scope = $1 AND key = $2"
	PostgresVersion = "SELECT version FROM stet_records WHERE scope = $1 AND key = $2"
	PostgresHistory = "SELECT id, scope, key, was, became, attempt, at, who, why, evidence FROM stet_history"
)

// PostgresKind is the type a value is sent as.
type PostgresKind string

// Kinds of values.
const (
	PostgresText  PostgresKind = "text"
	PostgresInt   PostgresKind = "bigint"
	PostgresBool  PostgresKind = "boolean"
	PostgresBytes PostgresKind = "bytea"
)

func postgresKind(column string) PostgresKind {
	switch column {
	case "scope", "key", "state", "recipe", "holder", "point", "cause", "route", "method", "path", "trace_id", "downstream_key",
		"downstream_id", "note_who", "note_why", "note_evidence":
		return PostgresText
	case "published", "reconciled", "escalated", "from_creation":
		return PostgresBool
	case "fingerprint", "parts", "meta", "headers", "trailers", "body", "request", "progress":
		return PostgresBytes
	}
	return PostgresInt
}

// PostgresWrite is a verb in SQL: a statement for one record, whose arguments are values, and one for many, whose arguments
// are arrays of them. The last argument of both is how long to wait for a row that somebody else holds (lock_timeout in
// milliseconds; "" leaves the setting as it is). Each row of the answer is: the number of the record in what was sent, from 1; the instant
// of the write, or of the look; whether it was done; and the columns of the record that stood in the way.
type PostgresWrite struct {
	One, Many string
	Kinds     []PostgresKind // of the arguments but the last
}

// The head's checksum is a value like others; the instants are the server's.
var postgresSums = []string{"head_sum"}

var (
	PostgresCreate      = postgresCreate()
	PostgresReplaceHead = postgresReplace(false, head, postgresSums)
	PostgresReplaceAll  = postgresReplace(false, head, postgresSums, body)
	PostgresNoteHead    = postgresReplace(true, head, postgresSums)
	PostgresNoteAll     = postgresReplace(true, head, postgresSums, body)
	PostgresDelete      = postgresDelete()
)

// postgresSource is the beginning of a statement: what was sent (i), and the instant (t). lock_timeout is set where the instant
// is read, which comes before anything can wait, and ends with the statement's transaction.
func postgresSource(columns []string) (one, many string, kinds []PostgresKind) {
	var values, arrays []string
	for n, c := range columns {
		kind := postgresKind(c)
		kinds = append(kinds, kind)
		values = append(values, fmt.Sprintf("$%d::%s AS %s", n+1, kind, c))
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", n+1, kind))
	}
	t := fmt.Sprintf(`),
t AS MATERIALIZED (SELECT `+PostgresNow+` AS now, set_config('lock_timeout', coalesce(nullif($%d::text, ''), current_setting('lock_timeout')), true))`,
		len(columns)+1)
	one = "WITH i AS MATERIALIZED (SELECT 1::bigint AS ord, " + strings.Join(values, ", ") + t
	many = "WITH i AS MATERIALIZED (SELECT * FROM unnest(" + strings.Join(arrays, ", ") + ") WITH ORDINALITY AS u(" +
		strings.Join(columns, ", ") + ", ord)" + t
	return one, many, kinds
}

// postgresNothing stands in an answer for the columns of a record that is not in the way.
func postgresNothing(columns ...[]string) string {
	var all []string
	for _, cs := range columns {
		for _, c := range cs {
			switch postgresKind(c) {
			case PostgresText:
				all = append(all, "''")
			case PostgresInt:
				all = append(all, "0")
			case PostgresBool:
				all = append(all, "false")
			case PostgresBytes:
				all = append(all, "NULL")
			}
		}
	}
	return strings.Join(all, ", ")
}

// postgresCreate looks first, and inserts only what was not found: an INSERT alone would wait for a transaction that changes
// the row, and a duplicate is to be answered at once. Who is overtaken between the two gets no row, and asks again. Each look-up is a
// subquery of its own (OFFSET 0), so that no plan made for a small table reads all of a large one.
func postgresCreate() PostgresWrite {
	columns := flat(identity, head, postgresSums, body)
	one, many, kinds := postgresSource(append(columns, "due_in"))
	rest := `,
f AS MATERIALIZED (SELECT i.ord, s.* FROM i CROSS JOIN LATERAL (SELECT ` + PostgresRecord + `
	FROM stet_records s WHERE s.scope = i.scope AND s.key = i.key OFFSET 0) s),
n AS (INSERT INTO stet_records (` + list("%s", columns) + `, due_at, updated_at, created_at, completed_at)
	SELECT ` + list("i.%s", columns) + `, t.now + i.due_in, t.now, t.now, CASE WHEN i.state = 'completed' THEN t.now END
	FROM i, t WHERE NOT EXISTS (SELECT FROM f WHERE f.ord = i.ord) ORDER BY i.ord
	ON CONFLICT DO NOTHING RETURNING scope, key)
SELECT s.ord, t.now, false, ` + PostgresRecord + ` FROM f s, t
UNION ALL SELECT i.ord, t.now, true, ` + postgresNothing(identity, head, instants, body) + ` FROM n, i, t WHERE n.scope = i.scope AND n.key = i.key`
	return PostgresWrite{one + rest, many + rest, kinds}
}

// postgresThere is the answer about a record that could not be changed.
const postgresThere = `
UNION ALL SELECT i.ord, t.now, false, %[1]s FROM i, t, LATERAL (SELECT %[1]s FROM stet_records s
	WHERE s.scope = i.scope AND s.key = i.key OFFSET 0) s WHERE NOT EXISTS (SELECT FROM u)`

// postgresReplace changes a record, if it has the version prev and a format this program may overwrite. No record's time goes
// back, whatever the server's clock does. One waits for a row that somebody holds; many pass over it.
//
// Many lock their rows in the order they were sent, which is that of their names, and then write over them as an upsert: it finds each by the
// primary key whatever the planner believes, and there is nothing to insert, since all of them are there and held.
func postgresReplace(noted bool, columns ...[]string) PostgresWrite {
	set := flat(columns...)
	sent := flat(identity, set)
	one, many, kinds := postgresSource(append(sent, "prev", "due_in", "created", "ended"))
	const stamps = "%[1]s + i.due_in, %[1]s, CASE i.created WHEN 0 THEN %[1]s ELSE i.created END, " +
		"CASE WHEN i.ended <> 0 THEN i.ended WHEN i.state = 'completed' THEN %[1]s END"
	const stamped = "due_at, updated_at, created_at, completed_at"
	held := fmt.Sprintf("s.scope = i.scope AND s.key = i.key AND s.version = i.prev AND s.schema = %d", Schema)
	done := "\nSELECT i.ord, u.updated_at, true, " + postgresNothing(identity, head, instants) + " FROM u, i WHERE u.scope = i.scope AND u.key = i.key"

	one += `,
u AS (UPDATE stet_records s SET (` + list("%s", set) + ", " + stamped + `) = ROW(` + list("i.%s", set) + ", " +
		fmt.Sprintf(stamps, "greatest(t.now, s.updated_at)") + `)
	FROM i, t WHERE ` + held + ` RETURNING s.scope, s.key, s.updated_at)`
	if noted { // the state that ended is the one seen with this version, which is written once
		one += `,
h AS (INSERT INTO stet_history (scope, key, was, became, attempt, at, who, why, evidence)
	SELECT i.scope, i.key, s.state, i.state, i.attempt, u.updated_at, i.note_who, i.note_why, i.note_evidence
	FROM u, i, stet_records s WHERE ` + held + `)`
	}
	one += done + fmt.Sprintf(postgresThere, PostgresHead)
	if noted {
		return PostgresWrite{One: one, Kinds: kinds}
	}

	sums, sumsValue := "", ""
	if len(columns) == 2 { // the body stays: its columns are not written, and this one may not be NULL
		sums, sumsValue = ", body_sum", ", 0"
	}
	many += `,
l AS MATERIALIZED (SELECT i.ord, greatest(t.now, s.updated_at) AS at FROM t, i CROSS JOIN LATERAL (SELECT s.updated_at
	FROM stet_records s WHERE ` + held + ` FOR UPDATE SKIP LOCKED OFFSET 0) s),
u AS (INSERT INTO stet_records AS s (` + list("%s", sent) + ", " + stamped + sums + `)
	SELECT ` + list("i.%s", sent) + ", " + fmt.Sprintf(stamps, "l.at") + sumsValue + ` FROM l JOIN i USING (ord) ORDER BY ord
	ON CONFLICT (scope, key) DO UPDATE SET ` + list("%[1]s = excluded.%[1]s", set, strings.Split(stamped, ", ")) + `
	RETURNING s.scope, s.key, s.updated_at)` + done
	return PostgresWrite{one, many, kinds}
}

func postgresDelete() PostgresWrite {
	one, _, kinds := postgresSource(append(flat(identity), "prev"))
	one += fmt.Sprintf(`,
u AS (DELETE FROM stet_records s USING i, t WHERE s.scope = i.scope AND s.key = i.key AND s.version = i.prev AND s.schema = %d RETURNING s.scope)
SELECT 1::bigint, t.now, true, %s FROM u, t`, Schema, postgresNothing(identity, head, instants)) + fmt.Sprintf(postgresThere, PostgresHead)
	return PostgresWrite{One: one, Kinds: kinds}
}

func flat(columns ...[]string) (all []string) {
	for _, cs := range columns {
		all = append(all, cs...)
	}
	return all
}
