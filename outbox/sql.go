package outbox

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/store/sqlstore"
)

// statements are the SQL of one dialect. Every instant is of the database's clock, which for SQLite is the process's.
type statements struct {
	dialect sqlstore.Dialect
	text    sqltext.Encoder

	add, tell, lapse, pick, take, get, extend, downstream, settle, done, isDone, byHand, list, show, counts, stretch, over, reap string
}

const (
	columns = "id, version, state, attempt, scope, `key`, life, topic, name, order_key, downstream_key, downstream_id, payload, meta, " +
		"errors, created_at, updated_at, due_at"

	// Nothing that was added before under the same order key is left. A message never comes back from done or discarded, so
	// that an old look at the others can only make this one wait.
	first = "(o.order_key = '' OR NOT EXISTS (SELECT 1 FROM stet_outbox p WHERE p.order_key = o.order_key AND p.order_key <> '' " +
		"AND p.id < o.id AND p.state NOT IN ('done', 'discarded')))"
	due = "SELECT o.id FROM stet_outbox o WHERE o.state = 'pending' AND o.due_at <= NOW AND " + first + " ORDER BY o.due_at, o.id LIMIT "

	// A claim's version is its fencing token: whoever claims or settles the row after it makes it grow.
	held = " WHERE id = ? AND version = ? AND state = 'running'"
	// What happened, for those who look: a line more.
	noted = "errors = LINE, "
)

func newStatements(d sqlstore.Dialect) *statements {
	s := &statements{dialect: d}
	now, suffix := "", " ON CONFLICT (downstream_key) DO NOTHING"
	switch d {
	case sqlstore.SQLite:
		now, s.text = "(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000)", sqltext.SQLiteText
	case sqlstore.Postgres:
		// As a query of its own it is asked once in a statement, and can bound the search of an index.
		now, s.text = "(SELECT "+sqltext.PostgresNow+")", sqltext.PostgresEncoder
		s.tell = "SELECT pg_notify('" + sqltext.PostgresOutboxChannel + "', '')"
	case sqlstore.MySQL:
		now, s.text = sqltext.MySQLNow, func(v string) any { return []byte(v) }
		suffix = " ON DUPLICATE KEY UPDATE id = id"
	default:
		panic(fmt.Sprintf("outbox: no dialect: %q", string(d)))
	}
	build := func(q string) string { return s.build(q, now) }

	s.add = build("INSERT INTO stet_outbox (version, state, attempt, scope, `key`, life, topic, name, order_key, downstream_key, downstream_id, " +
		"payload, meta, errors, created_at, updated_at, due_at) VALUES (1, 'pending', 0, ?, ?, ?, ?, ?, ?, ?, '', ?, ?, '', NOW, NOW, NOW + ?)" + suffix)
	s.lapse = build("UPDATE stet_outbox SET " + noted + "state = ?, version = version + 1, updated_at = NOW, due_at = NOW WHERE state = 'running' AND due_at <= NOW")
	const claim = "UPDATE stet_outbox SET state = 'running', version = version + 1, attempt = attempt + 1, updated_at = NOW, due_at = NOW + ? WHERE id IN ("
	switch d {
	case sqlstore.SQLite: // one statement, which has the file to itself
		s.take = build(claim + due + "?) RETURNING " + columns)
	case sqlstore.Postgres:
		s.take = build(claim + "SELECT id FROM (" + due + "? FOR UPDATE SKIP LOCKED) c) RETURNING " + columns)
	case sqlstore.MySQL: // in a transaction; the numbers are written into take and get
		s.pick = build(due + "? FOR UPDATE SKIP LOCKED")
		s.take = build(claim + "IDS)")
		s.get = build("SELECT " + columns + " FROM stet_outbox WHERE id IN (IDS)")
	}
	s.extend = build("UPDATE stet_outbox SET updated_at = NOW, due_at = NOW + ?" + held)
	s.downstream = build("UPDATE stet_outbox SET downstream_id = ?, updated_at = NOW" + held)
	s.settle = build("UPDATE stet_outbox SET " + noted + "state = ?, version = version + 1, updated_at = NOW, due_at = NOW + ?" + held)
	const these = "id IN (IDS) AND (id, version) IN (VERSIONS)"
	s.done = build("UPDATE stet_outbox SET state = 'done', version = version + 1, updated_at = NOW, due_at = NOW WHERE state = 'running' AND " + these)
	s.isDone = build("SELECT id FROM stet_outbox WHERE state = 'done' AND " + these)
	s.byHand = build("UPDATE stet_outbox SET " + noted + "state = ?, attempt = CASE WHEN ? = 1 THEN 0 ELSE attempt END, version = version + 1, " +
		"updated_at = NOW, due_at = NOW WHERE id = ? AND version = ? AND state IN ('dead', 'unknown')")
	s.list = build("SELECT " + columns + " FROM stet_outbox WHERE id > ?")
	s.show = build("SELECT " + columns + " FROM stet_outbox WHERE id = ?")
	s.counts = build("SELECT state, COUNT(*) FROM stet_outbox WHERE state IN ('pending', 'running', 'unknown', 'dead') GROUP BY state")
	// By the primary key: an index of what is done would cost every delivery a write.
	s.stretch = build("SELECT COALESCE(MAX(id), 0), COUNT(*), COALESCE(MIN(created_at) <= NOW - ?, FALSE) FROM (SELECT id, created_at FROM stet_outbox " +
		"WHERE id > ? ORDER BY id LIMIT ?) s")
	const over = "stet_outbox WHERE id > ? AND id <= ? AND state IN ('done', 'discarded') AND due_at <= NOW - ?"
	s.over, s.reap = build("SELECT id FROM "+over), build("DELETE FROM "+over)
	if d == sqlstore.MySQL { // by the names alone, or it would lock what lies between
		s.reap = build("DELETE o FROM stet_outbox o FORCE INDEX (PRIMARY) WHERE o.id IN (IDS) AND o.state IN ('done', 'discarded')")
	}
	return s
}

var place = regexp.MustCompile(`\?`)

// build fills in the clock and the line, and writes places and quotes as the dialect wants them. The line's argument is text in
// JSON; attempt and version are those before the change.
func (s *statements) build(q, now string) string {
	parts := []string{"errors", `'{"attempt":'`, "attempt", `',"at":'`, now, `',"error":'`, "TEXT", `'}'`, "NEWLINE"}
	line := strings.Join(parts, " || ")
	newline := "char(10)"
	switch s.dialect {
	case sqlstore.MySQL:
		line = "CONCAT(" + strings.Join(parts, ", ") + ")"
	case sqlstore.Postgres:
		newline = "chr(10)"
	}
	// No line for an empty argument would need a second statement: the argument comes twice instead.
	line = "CASE WHEN TEXT = '' THEN errors ELSE " + strings.ReplaceAll(line, "NEWLINE", newline) + " END"
	arg := "?"
	if s.dialect == sqlstore.Postgres {
		arg = "?::text" // it has no other way to know
	}
	q = strings.ReplaceAll(q, "LINE", strings.ReplaceAll(line, "TEXT", arg))
	q = strings.ReplaceAll(q, "NOW", now)
	if s.dialect != sqlstore.Postgres {
		return q
	}
	n := 0
	q = strings.ReplaceAll(q, "`", "")
	q = place.ReplaceAllStringFunc(q, func(string) string { n++; return "$" + strconv.Itoa(n) })
	return q
}
