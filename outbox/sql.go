package outbox

import (
	"fmt"
	"strings"

	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/store/sqlstore"
)

// statements are the SQL of one dialect. All instants are those of the database's clock; for SQLite
// that is the clock of the process.
type statements struct {
	dialect sqlstore.Dialect
	now     string // the clock
	text    sqltext.Encoder

	add, tell                                         string
	take, pick, get, lapse, lapsed                    string // of claims; pick and lapsed are MySQL's, which need two statements
	sort, unsorted, before, live                      string // of lines; the last three are MySQL's
	behind, woken, waiting                            string
	extend, downstream, settle, done, settled, landed string
	byHand, list, show, counts                        string
	stretch, over, free, reap                         string
}

const (
	over = "('done', 'discarded')"
	due  = " FROM stet_outbox o WHERE o.state = 'pending' AND o.behind = %d AND o.due_at <= NOW ORDER BY o.due_at, o.id LIMIT ?"
	// The version of a claim is its fencing token: every claim and every outcome changes it.
	held = " WHERE id = ? AND version = ? AND state = 'running'"
	// Adds a line to the message's errors.
	noted = "errors = LINE, "

	skip = " FOR UPDATE SKIP LOCKED"
)

func newStatements(d sqlstore.Dialect) *statements {
	s := &statements{dialect: d}
	suffix := " ON CONFLICT (downstream_key) DO NOTHING"
	switch d {
	case sqlstore.SQLite:
		s.now, s.text = "(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000)", sqltext.SQLiteText
	case sqlstore.Postgres:
		// As a subquery it is evaluated once per statement, and can bound an index scan.
		s.now, s.text = "(SELECT "+sqltext.PostgresNow+")", sqltext.PostgresEncoder
		s.tell = "SELECT pg_notify('" + sqltext.PostgresOutboxChannel + "', '')"
	case sqlstore.MySQL:
		s.now, s.text = sqltext.MySQLNow, func(v string) any { return []byte(v) }
		suffix = " ON DUPLICATE KEY UPDATE id = id"
	default:
		panic(fmt.Sprintf("outbox: no dialect: %q", string(d)))
	}
	s.add = s.build("INSERT INTO stet_outbox (version, state, behind, attempt, scope, `key`, life, topic, name, order_key, " +
		"downstream_key, downstream_id, payload, meta, key_honoured, errors, created_at, updated_at, due_at) " +
		"VALUES (1, 'pending', ?, 0, ?, ?, ?, ?, ?, ?, ?, '', ?, ?, ?, '', NOW, NOW, NOW + ?)" + suffix)
	s.claims()
	s.lines()
	s.outcomes()
	s.reaping()
	s.list = "SELECT " + columns + " FROM stet_outbox WHERE id > ?" // goes on: see [Desk.List]
	s.show = s.build("SELECT " + columns + " FROM stet_outbox WHERE id = ?")
	s.counts = s.build("SELECT state, COUNT(*) FROM stet_outbox WHERE state IN ('pending', 'running', 'unknown', 'dead') GROUP BY state")
	return s
}

// claims builds the statements that give messages to a worker, or take them from one that is gone.
// They skip rows that others have locked.
func (s *statements) claims() {
	take := "UPDATE stet_outbox SET state = 'running', version = ?, attempt = attempt + 1, updated_at = NOW, due_at = NOW + ? " +
		"WHERE id IN (IDS)"
	lapse := "UPDATE stet_outbox SET " + noted + "state = CASE WHEN key_honoured <> 1 THEN 'unknown' WHEN attempt >= ? THEN 'dead' ELSE 'pending' END, version = ?, " +
		"updated_at = NOW, due_at = NOW WHERE id IN (IDS)"
	free := "SELECT o.id" + fmt.Sprintf(due, first)
	late := "SELECT id FROM stet_outbox WHERE state = 'running' AND due_at <= NOW ORDER BY due_at LIMIT ?"
	switch s.dialect {
	case sqlstore.SQLite: // one statement, which no other writer can interrupt
		take = strings.Replace(take, "IDS", free, 1) + " RETURNING " + columns
		lapse = strings.Replace(lapse, "IDS", late, 1)
	case sqlstore.Postgres:
		picked := func(q string) string { return "SELECT id FROM (" + q + skip + ") c" }
		take = strings.Replace(take, "IDS", picked(free), 1) + " RETURNING " + columns
		lapse = strings.Replace(lapse, "IDS", picked(late), 1)
	case sqlstore.MySQL:
		s.pick, s.lapsed = s.build(free+skip), s.build(late+skip)
		s.get = s.build("SELECT " + columns + " FROM stet_outbox WHERE id IN (IDS)")
	}
	s.take, s.lapse = s.build(take), s.build(lapse)
	s.landed = s.build("SELECT id, version FROM stet_outbox WHERE state = 'running' AND version IN (IDS)")
}

// lines builds the statements of line.go.
//
// The message before o is the last one of its line that is not over, which takes one step in the
// index of the lines. The statements leave the planner no choice of index: in a table that is
// mostly one line the primary key looks as good, and would then be used for all other lines, too.
func (s *statements) lines() {
	next := fmt.Sprintf(due, unsorted)
	switch s.dialect {
	case sqlstore.SQLite:
		before := "(SELECT p.id FROM stet_outbox p INDEXED BY stet_outbox_order " +
			"WHERE p.order_key = o.order_key AND p.order_key <> '' AND p.id < o.id AND p.state NOT IN " + over + " ORDER BY p.id DESC LIMIT 1)"
		s.sort = s.build("UPDATE stet_outbox AS o SET behind = COALESCE(" + before + ", 0) " +
			"WHERE o.id IN (SELECT o.id" + next + ")")
	case sqlstore.Postgres:
		before := "(SELECT CASE WHEN p.order_key = o.order_key THEN p.id END FROM stet_outbox p " +
			"WHERE (p.order_key, p.id) < (o.order_key, o.id) AND p.order_key <> '' AND p.state NOT IN " + over + " ORDER BY p.order_key DESC, p.id DESC LIMIT 1)"
		s.sort = s.build("WITH x AS (SELECT o.id, " + before + " AS before" + next + " FOR UPDATE OF o SKIP LOCKED), " +
			"live AS (SELECT p.id FROM stet_outbox p WHERE p.id IN (SELECT before FROM x) AND p.state NOT IN " + over +
			" FOR SHARE SKIP LOCKED) " +
			"UPDATE stet_outbox t SET behind = COALESCE(x.before, 0) FROM x " +
			"WHERE t.id = x.id AND (x.before IS NULL OR x.before IN (SELECT id FROM live))")
	case sqlstore.MySQL:
		s.unsorted = s.build("SELECT o.id" + next + skip)
		s.before = s.build("SELECT o.id, COALESCE((SELECT p.id FROM stet_outbox p FORCE INDEX (stet_outbox_order) " +
			"WHERE p.line = o.line AND p.id < o.id ORDER BY p.id DESC LIMIT 1), 0) " +
			"FROM stet_outbox o WHERE o.id IN (IDS)")
		s.live = s.build("SELECT id FROM stet_outbox WHERE id IN (IDS) AND state NOT IN " + over + skip)
		s.sort = s.build("UPDATE stet_outbox SET behind = CASE id CASES END WHERE id IN (IDS)")
	}
	s.behind = s.build("SELECT id FROM stet_outbox WHERE state = 'pending' AND behind IN (IDS)")
	s.woken = s.build("UPDATE stet_outbox SET behind = -1 WHERE state = 'pending' AND id IN (IDS)")
	s.waiting = s.build("SELECT o.id, o.behind, " +
		"COALESCE((SELECT 1 FROM stet_outbox p WHERE p.id = o.behind AND p.state NOT IN " + over +
		"), 0) FROM stet_outbox o WHERE o.state = 'pending' AND o.behind > ? ORDER BY o.behind LIMIT ?")
}

// outcomes builds the statements of a message's holder, and of people.
func (s *statements) outcomes() {
	s.extend = s.build("UPDATE stet_outbox SET updated_at = NOW, due_at = NOW + ?" + held)
	s.downstream = s.build("UPDATE stet_outbox SET downstream_id = ?, updated_at = NOW" + held)
	s.settle = s.build("UPDATE stet_outbox SET " + noted + "state = ?, attempt = attempt - ?, version = version + 1, " +
		"updated_at = NOW, due_at = NOW + ?" + held)
	const these = "id IN (IDS) AND (id, version) IN (VERSIONS)"
	s.done = s.build("UPDATE stet_outbox SET state = 'done', version = version + 1, updated_at = NOW, due_at = NOW " +
		"WHERE state = 'running' AND " + these)
	s.settled = s.build("SELECT id FROM stet_outbox WHERE state <> 'running' AND " + these)
	s.byHand = s.build("UPDATE stet_outbox SET " + noted + "state = ?, attempt = CASE WHEN ? = 1 THEN 0 ELSE attempt END, " +
		"version = ?, updated_at = NOW, due_at = NOW WHERE id = ? AND version = ? AND state IN ('dead', 'unknown')")
}

// reaping builds the statements of [Box.Reap].
func (s *statements) reaping() {
	// By the primary key: an index of settled messages would cost every delivery another write.
	s.stretch = s.build("SELECT COALESCE(MAX(id), 0), COUNT(*), COALESCE(MIN(created_at) <= NOW - ?, FALSE) " +
		"FROM (SELECT id, created_at FROM stet_outbox WHERE id > ? ORDER BY id LIMIT ?) s")
	old := "SELECT id FROM stet_outbox WHERE id > ? AND id <= ? AND state IN " + over + " AND due_at <= NOW - ?"
	s.over = s.build(old)
	switch s.dialect {
	case sqlstore.SQLite:
		s.reap = s.build("DELETE FROM stet_outbox WHERE id IN (" + old + ")")
	case sqlstore.Postgres:
		s.reap = s.build("DELETE FROM stet_outbox WHERE id IN (SELECT id FROM (" + old + skip + ") c)")
	case sqlstore.MySQL: // by ids alone, because a range would lock the rows between them
		s.free = s.build("SELECT id FROM stet_outbox FORCE INDEX (PRIMARY) WHERE id IN (IDS) AND state IN " + over + skip)
		s.reap = s.build("DELETE o FROM stet_outbox o FORCE INDEX (PRIMARY) WHERE o.id IN (IDS)")
	}
}

// build fills in the clock and the line of errors, and ends a statement. The argument of the line
// is JSON text; attempt and version are those before the change.
func (s *statements) build(q string) string {
	parts := []string{"errors", "NEWLINE", `'{"attempt":'`, "attempt", `',"at":'`, s.now, `',"error":'`, "TEXT", `'}'`, "NEWLINE"}
	line := strings.Join(parts, " || ")
	newline := "char(10)"
	switch s.dialect {
	case sqlstore.MySQL:
		line = "CONCAT(" + strings.Join(parts, ", ") + ")"
	case sqlstore.Postgres:
		newline = "chr(10)"
	}
	// An empty argument adds no line. The argument occurs twice, which saves a second statement.
	line = "CASE WHEN TEXT = '' THEN errors ELSE " + strings.ReplaceAll(line, "NEWLINE", newline) + " END"
	arg := "?"
	if s.dialect == sqlstore.Postgres {
		arg = "?::text" // which cannot infer the type
	}
	q = strings.ReplaceAll(q, "LINE", strings.ReplaceAll(line, "TEXT", arg))
	return s.end(strings.ReplaceAll(q, "NOW", s.now))
}

// end writes placeholders and quotes as the dialect does.
func (s *statements) end(q string) string {
	if s.dialect != sqlstore.Postgres {
		return q
	}
	return sqltext.PostgresPlaces(strings.ReplaceAll(q, "`", ""))
}
