package sqltext

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stet-dev/stet"
)

//go:embed sqlite/*.sql
var sqliteFiles embed.FS

// SQLiteMigrations are the numbered steps to today's schema.
func SQLiteMigrations() fs.FS { return sqliteFiles }

// SQLiteText stores ordinary strings as text, for people, and others as blobs: SQLite promises nothing about text with a NUL
// or of another encoding. A string has one form only, so that the two never make one key two or two keys one.
func SQLiteText(s string) any {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return []byte(s)
}

// The statements of SQLite, whose transactions lock the whole file: one statement may follow another without a gap.
var (
	// A deferred transaction that writes after it has read fails where another process wrote in between.
	SQLiteBegin, SQLiteCommit, SQLiteRollback = "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"

	SQLiteGet         = "SELECT " + list("%s", identity, head, instants, body) + " FROM stet_records WHERE scope = ? AND key = ?"
	SQLiteGetHead     = "SELECT " + list("%s", identity, head, instants) + " FROM stet_records WHERE scope = ? AND key = ?"
	SQLiteSelectHeads = SQLiteDialect.heads() + " FROM stet_records"

	// Changes nothing where the name is taken.
	SQLiteInsert = "INSERT INTO stet_records (" + list("%s", identity, head, body, instants) + ") VALUES (" +
		list("?%.0s", identity, head, body, instants) + ") ON CONFLICT (scope, key) DO NOTHING"

	// Change nothing where the row has another version, a format of another program, a later instant than theirs, or another tag:
	// that hardly ever changes, and SQLite makes anew what any index has of a column that is set, also to what it was.
	SQLiteUpdate     = "UPDATE stet_records SET " + sqliteSet(head, instants) + sqliteIf + sqliteLater + sqliteTag
	SQLiteUpdateBody = "UPDATE stet_records SET " + sqliteSet(head, body, instants) + sqliteIf + sqliteLater + sqliteTag
	SQLiteRetag      = "UPDATE stet_records SET tag = ?" + sqliteIf
	SQLiteDelete     = "DELETE FROM stet_records" + sqliteIf

	// Goes by the state and the instant alone, as [stet.Reaper] says.
	SQLiteReap = fmt.Sprintf("DELETE FROM stet_records WHERE id IN (SELECT id FROM stet_records WHERE state = ? AND due_at <= ? "+
		"AND (state <> 'completed' OR keep_expired_ns = 0) AND schema = %d ORDER BY due_at LIMIT ?)", Schema)

	// Adds nothing to the history where those would change nothing: it comes before them.
	SQLiteNote = "INSERT INTO stet_history (" + historyColumns + ") " +
		"SELECT scope, key, state, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM stet_records" + sqliteIf + sqliteLater + " AND tag IS ?"

	// Adds an entry that tells of no change; the instant comes last.
	SQLiteAppend = "INSERT INTO stet_history (scope, key, was, became, attempt, who, why, evidence, notice, action, tag, at) " +
		"VALUES (?, ?, '', '', ?, ?, ?, ?, ?, ?, ?, ?)"

	SQLiteFind = SQLiteDialect.find()

	// What a connection is to, and whether its commits are on the disk when they return: 2 or more.
	SQLiteFile = "SELECT file, synchronous FROM pragma_database_list, pragma_synchronous WHERE name = 'main'"

	// What is due in a page of Due: after the place of the page before, and no damage that has no place.
	SQLiteDue      = "due_at <= ? AND typeof(due_at) = 'integer'"
	SQLiteDueAfter = "(due_at, id) > (?, ?)"

	// Move what is in the log into the table, and cut the log off, when those who read it have ended.
	SQLiteTruncate = "PRAGMA wal_checkpoint(TRUNCATE)"

	sqliteIf    = fmt.Sprintf(" WHERE scope = ? AND key = ? AND version = ? AND schema = %d", Schema)
	sqliteLater = " AND updated_at <= ?"
	sqliteTag   = fmt.Sprintf(" AND tag IS ?%d", slices.Index(head, "tag")+1)
)

// sqliteSet sets all columns but the tag, which has its place among the arguments.
func sqliteSet(columns ...[]string) string {
	var all []string
	for i, c := range flat(columns...) {
		if c != "tag" {
			all = append(all, fmt.Sprintf("%s = ?%d", c, i+1))
		}
	}
	return strings.Join(all, ", ")
}

// SQLiteWait says how many milliseconds a connection waits for others.
func SQLiteWait(ms int64) string { return fmt.Sprintf("PRAGMA busy_timeout = %d", ms) }

// Note appends the arguments of [SQLiteNote], but for those of its condition: the entry that h's note makes at the instant at.
func (text Encoder) Note(args []any, h *stet.Head, at int64) []any {
	return append(args, h.State.String(), h.Attempt, at, text(h.Note.Who), text(h.Note.Why), text(h.Note.Evidence), text(h.Note.Notice),
		text(h.Note.Action), text(h.Tag))
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
