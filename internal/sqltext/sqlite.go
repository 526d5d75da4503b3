package sqltext

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stet-dev/stet"
)

// SQLiteText stores ordinary strings as text, for people, and others as blobs, because SQLite
// promises nothing about text that contains a NUL or is not UTF-8. Each string has one form only,
// so that one key never becomes two, nor two keys one.
func SQLiteText(s string) any {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return []byte(s)
}

// The statements of SQLite. Its transactions lock the whole file, so nothing comes between two
// statements.
var (
	// A deferred transaction that writes after it has read fails if another process wrote in
	// between.
	SQLiteBegin, SQLiteCommit, SQLiteRollback = "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"

	// SQLiteGet takes the most that a body may have after the name.
	SQLiteGet         = "SELECT " + list("%s", headColumns) + ", " + fitting("", "length", "?3") + " FROM stet_records WHERE scope = ?1 AND key = ?2"
	SQLiteGetHead     = "SELECT " + list("%s", headColumns) + " FROM stet_records WHERE scope = ? AND key = ?"
	SQLiteHas         = "SELECT 1 FROM stet_records WHERE scope = ? AND key = ?"
	SQLiteSelectHeads = SQLiteDialect.heads() + " FROM stet_records"

	// SQLiteInsert changes nothing if the name is taken. It is refused, because the format of a row
	// cannot be NULL, if the index by tags leads to the row: a bit that turned over in the index by
	// names would hide it otherwise (S06). It is no condition of the statement, since SQLite makes
	// a temporary table of what is selected from the table that it is inserted into.
	SQLiteInsert = "INSERT INTO stet_records (" + list("%s", head, body, instants, identity) + ", schema) VALUES (" +
		list("?%.0s", head, body, instants, identity) + fmt.Sprintf(", CASE WHEN EXISTS (SELECT 1 FROM stet_records INDEXED BY stet_records_tag"+
		" WHERE tag = ?%d AND +scope = ?%d AND +key = ?%d) THEN NULL ELSE %d END) ON CONFLICT (scope, key) DO NOTHING",
		sqlitePlace("tag"), sqlitePlace("scope"), sqlitePlace("key"), Schema)

	// SQLiteUpdate and the next three change nothing if the row has another version or the format
	// of another program; the updates also where it has a later instant, or another tag. A tag
	// hardly ever changes, and SQLite rewrites the index of every column that is set, even to its
	// old value.
	SQLiteUpdate     = sqliteUpdate(head, instants)
	SQLiteUpdateBody = sqliteUpdate(head, body, instants)
	SQLiteRetag      = "UPDATE stet_records SET tag = ?" + sqliteIf
	SQLiteDelete     = "DELETE FROM stet_records" + sqliteIf

	// SQLiteCompare tells of rows whether the index by names leads to them.
	SQLiteCompare = "SELECT id, EXISTS (SELECT 1 FROM stet_records AS other WHERE other.scope = row.scope AND other.key = row.key AND +other.id = row.id)" +
		" FROM stet_records AS row WHERE id > ? ORDER BY id LIMIT ?"

	// SQLiteReap uses the state and the instant alone, as [stet.Reaper] says.
	SQLiteReap = "DELETE FROM stet_records WHERE id IN (SELECT id FROM stet_records WHERE state = ? AND due_at <= ? " +
		"AND (state <> 'completed' OR " + Reapable + fmt.Sprintf(") AND schema = %d ORDER BY due_at LIMIT ?)", Schema)

	// SQLiteNote comes before the statements that change, and adds nothing if they would change
	// nothing.
	SQLiteNote = "INSERT INTO stet_history (" + historyColumns + ") " +
		"SELECT scope, key, state, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM stet_records" + sqliteIf + " AND updated_at <= ? AND tag IS ?"

	// SQLiteAppend adds an entry without a change. The instant comes last.
	SQLiteAppend = "INSERT INTO stet_history (scope, key, was, became, attempt, who, why, evidence, notice, action, tag, at) " +
		"VALUES (?, ?, '', '', ?, ?, ?, ?, ?, ?, ?, ?)"

	SQLiteFind = SQLiteDialect.find("")

	// SQLiteFile says which file a connection uses, and whether its commits are on the disk when
	// they return: 2 or more.
	SQLiteFile = "SELECT file, synchronous FROM pragma_database_list, pragma_synchronous WHERE name = 'main'"

	// SQLiteDue is the condition of a page of Due: due, after the place of the page before, and not
	// damaged so that it has no place.
	SQLiteDue      = "due_at <= ? AND typeof(due_at) = 'integer'"
	SQLiteDueAfter = fmt.Sprintf(dueAfter, "?")

	// SQLiteTruncate moves the log into the table and truncates it, once its readers have ended.
	SQLiteTruncate = "PRAGMA wal_checkpoint(TRUNCATE)"

	sqliteIf = fmt.Sprintf(" WHERE scope = ? AND key = ? AND version = ? AND schema = %d", Schema)
)

// sqlitePlace is the place of a column among the arguments of SQLiteInsert.
func sqlitePlace(column string) int {
	return slices.Index(slices.Concat(head, body, instants, identity), column) + 1
}

// sqliteUpdate sets all columns except the tag, which keeps its place among the arguments.
func sqliteUpdate(columns ...[]string) string {
	all := slices.Concat(columns...)
	place := func(column string) int { return slices.Index(all, column) + 1 }
	var set []string
	for _, c := range all {
		if c != "tag" {
			set = append(set, fmt.Sprintf("%s = ?%d", c, place(c)))
		}
	}
	return "UPDATE stet_records SET " + strings.Join(set, ", ") + sqliteIf +
		fmt.Sprintf(" AND updated_at <= ?%d AND tag IS ?%d", place("updated_at"), place("tag"))
}

// SQLiteWait sets how many milliseconds a connection waits for others.
func SQLiteWait(ms int64) string { return fmt.Sprintf("PRAGMA busy_timeout = %d", ms) }

// Note appends the arguments of [SQLiteNote], except those of its condition: the entry that h's
// note makes at the instant at.
func (text Encoder) Note(args []any, h *stet.Head, at int64) []any {
	return text.note(append(args, h.State.String(), h.Attempt, at), h.Note, h.Tag)
}

// list formats every column and joins them by commas.
func list(format string, columns ...[]string) string {
	var all []string
	for _, cs := range columns {
		for _, c := range cs {
			all = append(all, fmt.Sprintf(format, c))
		}
	}
	return strings.Join(all, ", ")
}
