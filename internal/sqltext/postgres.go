package sqltext

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
)

// PostgresOutboxChannel is the channel on which transactions notify of messages that they add to
// the outbox.
const PostgresOutboxChannel = "stet_outbox"

// PostgresNumbered are the tables whose rows have a number of their own, id.
var PostgresNumbered = [...]string{"stet_records", "stet_history", "stet_outbox"}

// PostgresNow is the server's clock in microseconds since 1970. Unlike now(), it is not the instant
// at which the transaction began.
const PostgresNow = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

// Columns of a SELECT, as [Row] scans them.
var (
	postgresHead   = postgresRead(headColumns)
	postgresRecord = postgresHead + ", " + fitting("s.", "octet_length", smallBody)
)

func postgresRead(columns ...[]string) string { return list("s.%s", columns...) }

// The statements that read a record.
var (
	// PostgresGet takes the most that a body may have after the name.
	PostgresGet = "SELECT " + PostgresNow + ", " + postgresHead + ", " + fitting("s.", "octet_length", "$3::bigint") +
		" FROM stet_records s WHERE scope = $1 AND key = $2"
	// PostgresGetMany takes an array of scopes, and one of keys.
	PostgresGetMany = "SELECT " + PostgresNow + ", s.* FROM unnest($1::text[], $2::text[]) AS i(scope, key) CROSS JOIN LATERAL (SELECT " +
		postgresRecord + " FROM stet_records s WHERE s.scope = i.scope AND s.key = i.key OFFSET 0) s"
	PostgresVersion = "SELECT version FROM stet_records WHERE scope = $1 AND key = $2"

	// PostgresAppend adds an entry that tells of no change.
	PostgresAppend = "INSERT INTO stet_history (scope, key, was, became, attempt, who, why, evidence, notice, action, tag, at) " +
		"VALUES ($1, $2, '', '', $3, $4, $5, $6, $7, $8, $9, " + PostgresNow + ")"
)

// PostgresPlaces numbers the places for arguments, which are written ? in the statements that
// databases share.
func PostgresPlaces(statement string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, more := strings.Cut(statement, "?")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		statement = after
	}
}

// postgresKind is the type that an argument for a column is sent as.
func postgresKind(column string) string {
	switch column {
	case "scope", "key", "state", "route", "cause", "downstream_key", "downstream_id", "who", "why", "evidence", "notice", "action", "note_tag":
		return "text"
	case "head", "body":
		return "bytea"
	}
	return "bigint"
}

// PostgresWrite is a verb in SQL. It has a statement for one record, whose arguments are values,
// and one for many records, whose arguments are arrays of them. Both take three more: how long to
// wait for a row that another transaction holds (lock_timeout, in milliseconds; "" leaves the
// setting unchanged), and the ID that the store has to have, and the mark that it has to have
// reached. Nothing is written in another store, or in a session that would misread what is sent:
// the answer is then that of a statement that found nothing.
//
// The answer for one record is the instant of the write, if it was done. That for one Create has a
// row unless another writer came between: the instant of the write, or of the look-up; whether it
// was done; and the columns of the record that exists. The answer for many records is a row for
// each that was done, in any order: its scope, its key, and the instant of the write.
type PostgresWrite struct{ One, Many string }

// The statements that write a record.
var (
	PostgresCreate      = postgresCreate()
	PostgresReplaceHead = postgresReplace(head)
	PostgresReplaceAll  = postgresReplace(head, body)
	PostgresNoteHead    = postgresNote(head)
	PostgresNoteAll     = postgresNote(head, body)
	PostgresDelete      = postgresDelete()

	PostgresGetHead = "SELECT " + PostgresNow + ", " + postgresHead + " FROM stet_records s WHERE scope = $1 AND key = $2"
)

// postgresTime returns the instant and sets lock_timeout, if this is the store that it has to be.
// It is read before the statement can wait, and the setting ends with the statement's transaction.
// The arguments are the places of its arguments. A transaction in another isolation level sees the
// mark as it was when it began.
const postgresTime = "(SELECT " + PostgresNow + " AS now, " +
	"set_config('lock_timeout', coalesce(nullif($%d::text, ''), current_setting('lock_timeout')), true) FROM stet_store WHERE id = $%d::text " +
	"AND (mark >= $%d::bigint OR current_setting('transaction_isolation') <> 'read committed') AND pg_client_encoding() = 'UTF8')"

// sent are the columns of a statement's arguments.
type sent []string

// value is the argument of a column in the statement for one record.
func (s sent) value(column string) string {
	return fmt.Sprintf("$%d::%s", slices.Index(s, column)+1, postgresKind(column))
}

func (s sent) values(columns []string) string {
	var all []string
	for _, c := range columns {
		all = append(all, s.value(c))
	}
	return strings.Join(all, ", ")
}

// time is the source of the instant.
func (s sent) time() string { return fmt.Sprintf(postgresTime, len(s)+1, len(s)+2, len(s)+3) }

// clock begins a statement for many records, in which t has the instant.
func (s sent) clock() string { return "WITH t AS MATERIALIZED " + s.time() + "\n" }

// arrays is what was sent, as rows named i, in its order.
func (s sent) arrays() string {
	var all []string
	for n, c := range s {
		all = append(all, fmt.Sprintf("$%d::%s[]", n+1, postgresKind(c)))
	}
	return "unnest(" + strings.Join(all, ", ") + ") AS i(" + strings.Join(s, ", ") + ")"
}

// postgresCreate inserts a record, or finds the one that is there.
//
// The statement for one record looks first and inserts only what it did not find. An INSERT alone
// would wait for a transaction that changes the row, but a duplicate must be answered at once. If
// another writer comes between the two, the answer has no row, and the store asks again.
//
// The statement for many records inserts without looking, because nearly all of them are new. The
// store looks for those that were not inserted, by [PostgresGetMany].
func postgresCreate() PostgresWrite {
	columns := slices.Concat(identity, head, body)
	s := sent(append(columns, "due_in"))
	into := "INSERT INTO stet_records (" + list("%s", columns, postgresStamped) + ")\n\tSELECT "
	stamps := fmt.Sprintf(", %d", Schema) + ", t.now + %s, t.now, t.now, CASE WHEN %s = 'completed' THEN t.now END FROM "

	one := "WITH f AS MATERIALIZED (SELECT " + PostgresNow + " AS now, " + postgresRecord +
		" FROM stet_records s WHERE s.scope = $1 AND s.key = $2),\nn AS (" + into + s.values(columns) +
		fmt.Sprintf(stamps, s.value("due_in"), s.value("state")) + s.time() + ` t WHERE NOT EXISTS (SELECT FROM f)
	ON CONFLICT (scope, key) DO NOTHING RETURNING updated_at AS made)
SELECT coalesce(made, now), made IS NOT NULL, ` + postgresHead + ", s.body, s.size FROM f s FULL JOIN n ON true"

	many := s.clock() + into + list("i.%s", columns) + fmt.Sprintf(stamps, "i.due_in", "i.state") + "t, " + s.arrays() +
		"\nON CONFLICT (scope, key) DO NOTHING RETURNING scope, key, updated_at"
	return PostgresWrite{one, many}
}

// How a Replace stamps, given the instant. A record's time never goes back, whatever the server's
// clock does.
var (
	postgresStamped = slices.Concat([]string{"schema"}, instants)
	postgresStamps  = fmt.Sprint(Schema) + ", %[1]s + %[2]s, %[1]s, CASE %[3]s WHEN 0 THEN %[1]s ELSE %[3]s END, " +
		"CASE WHEN %[4]s <> 0 THEN %[4]s WHEN %[5]s = 'completed' THEN %[1]s END"
)

// postgresReplace changes a record if it has the version prev and a format that this program may
// overwrite. The statement for one record waits for a row that is locked; the one for many skips
// it. Many rows are locked in the order in which they are sent, and each is then written as an
// upsert: an upsert finds its row by the primary key whatever the planner believes, and it inserts
// nothing, since the row exists and is locked. Where the body stays it has one all the same, which
// is empty: what an upsert would insert has to be whole. OFFSET 0 keeps the look-up a subquery of
// its own, so that no plan made for a small table reads all of a large one.
func postgresReplace(columns ...[]string) PostgresWrite {
	set := slices.Concat(columns...)
	named := slices.Concat(identity, set)
	into, values := list("%s", named), list("i.%s", named)
	if !slices.Contains(set, body[0]) {
		into, values = into+", "+body[0], values+", ''::bytea"
	}
	s := replacing(set)
	many := s.clock() + "INSERT INTO stet_records AS s (" + into + ", " + list("%s", postgresStamped) + `)
	SELECT ` + values + ", " + fmt.Sprintf(postgresStamps, "l.at", "i.due_in", "i.created", "i.ended", "i.state") +
		" FROM t, " + s.arrays() + `, LATERAL (SELECT greatest(t.now, s.updated_at) AS at
	FROM stet_records s WHERE s.scope = i.scope AND s.key = i.key AND s.version = i.prev AND s.schema = ` + fmt.Sprint(Schema) + `
	FOR UPDATE SKIP LOCKED OFFSET 0) l
ON CONFLICT (scope, key) DO UPDATE SET ` + list("%[1]s = excluded.%[1]s", set, instants) + `
RETURNING s.scope, s.key, s.updated_at`
	return PostgresWrite{s.replaceOne(set), many}
}

// replacing returns the arguments of a statement that changes the columns set; more are further
// arguments.
func replacing(set []string, more ...string) sent {
	return slices.Concat(identity, set, []string{"prev", "due_in", "created", "ended"}, more)
}

func (s sent) replaceOne(set []string) string {
	return "UPDATE stet_records s SET (" + list("%s", set, postgresStamped) + ") = ROW(" + s.values(set) + ", " +
		fmt.Sprintf(postgresStamps, "greatest(t.now, s.updated_at)", s.value("due_in"), s.value("created"), s.value("ended"), s.value("state")) +
		")\n\tFROM " + s.time() + " t WHERE " + s.expected() + " RETURNING s.updated_at"
}

// expected is the condition that a record has the expected version.
func (s sent) expected() string {
	return fmt.Sprintf("s.scope = $1 AND s.key = $2 AND s.version = %s AND s.schema = %d", s.value("prev"), Schema)
}

// postgresNote adds an entry to the history in the statement that replaces. The state that ended is
// the one read with the version prev, which was written only once.
func postgresNote(columns ...[]string) PostgresWrite {
	set, note := slices.Concat(columns...), []string{"attempt", "who", "why", "evidence", "notice", "action", "note_tag"}
	s := replacing(set, note...)
	return PostgresWrite{One: "WITH u AS (" + s.replaceOne(set) + `),
h AS (INSERT INTO stet_history (` + historyColumns + `)
	SELECT s.scope, s.key, s.state, ` + s.values([]string{"state", "attempt"}) + ", u.updated_at, " + s.values(note[1:]) + `
	FROM u, stet_records s WHERE ` + s.expected() + `)
SELECT updated_at FROM u`}
}

func postgresDelete() PostgresWrite {
	s := sent(append(slices.Concat(identity), "prev"))
	return PostgresWrite{One: "DELETE FROM stet_records s USING " + s.time() + " t WHERE " + s.expected() + " RETURNING t.now"}
}

// PostgresReap returns a statement that removes records of one state whose time is over: those
// after the instant $1 and the row number $2, and at most $3 of them. It answers with their number,
// and the instant and row number of the last one. The state is part of the text, because a plan
// that is kept could not use the state's index otherwise. Rows are found again by their ctid: a row
// that has moved meanwhile is left alone.
//
// The plan has to be a walk in order, although the planner's statistics do not know a new backlog.
// The planner cannot see the number of the second LIMIT, and so expects that a tenth of the rows is
// wanted; of a condition of the form x <> 0 it expects that nearly all rows pass.
func PostgresReap(state stet.State) string {
	return fmt.Sprintf(`WITH d AS MATERIALIZED (SELECT * FROM (SELECT s.ctid FROM stet_records s WHERE s.state = '%[1]s'
	AND (s.due_at, s.id) > ($1::bigint, $2::bigint) AND s.due_at <= (SELECT %[2]s)
	AND (('%[1]s' <> 'completed' OR %[4]s) AND s.schema = %[3]d)::int <> 0
	ORDER BY s.due_at, s.id LIMIT $3::bigint FOR UPDATE OF s SKIP LOCKED) s LIMIT (SELECT $3::bigint)),
g AS (DELETE FROM stet_records WHERE ctid = ANY (ARRAY(SELECT ctid FROM d)) RETURNING due_at, id)
SELECT count(*) OVER (), due_at, id FROM g ORDER BY due_at DESC, id DESC LIMIT 1`, state, PostgresNow, Schema, Reapable)
}
