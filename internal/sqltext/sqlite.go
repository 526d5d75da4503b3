package sqltext

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"
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
	SQLiteSelectHeads = "SELECT id, " + list("%s", identity, head, instants) + " FROM stet_records"

	// Changes nothing where the name is taken.
	SQLiteInsert = "INSERT INTO stet_records (" + list("%s", identity, head, body, instants) + ") VALUES (" +
		list("?%.0s", identity, head, body, instants) + ") ON CONFLICT (scope, key) DO NOTHING"

	// Change nothing where the row has another version, or a format of another program.
	SQLiteUpdate     = "UPDATE stet_records SET " + list("%s = ?", head, instants) + sqliteIf
	SQLiteUpdateBody = "UPDATE stet_records SET " + list("%s = ?", head, body, instants) + sqliteIf
	SQLiteDelete     = "DELETE FROM stet_records" + sqliteIf

	sqliteIf = fmt.Sprintf(" WHERE scope = ? AND key = ? AND version = ? AND schema = %d", Schema)
)

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
