package sqltext

import (
	"io/fs"
	"strings"
)

const (
	// SchemaTable is the statement that makes the table of steps taken.
	SchemaTable = "CREATE TABLE IF NOT EXISTS stet_schema (version INTEGER PRIMARY KEY)"
	// PostgresHasSchema selects how many of these tables there are.
	PostgresHasSchema = "SELECT count(*) FROM pg_catalog.pg_class WHERE oid = to_regclass('stet_schema')"
)

// Steps returns the migrations in order, each of several statements: see [Statements].
func Steps(files fs.FS) []string {
	names, err := fs.Glob(files, "*/*.sql")
	if err != nil {
		panic(err) // of the pattern
	}
	steps := make([]string, len(names))
	for i, name := range names { // sorted
		b, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err) // of an embedded file
		}
		steps[i] = string(b)
	}
	return steps
}

// Statements splits a step into statements. A connection takes one statement at a time: Postgres's
// extended protocol has no more, and MySQL's setting for several would make an injection worse.
func Statements(step string) (all []string) {
	var sql strings.Builder
	for line := range strings.Lines(step) {
		if !strings.HasPrefix(line, "--") { // a comment may hold a semicolon
			sql.WriteString(line)
		}
	}
	for s := range strings.SplitSeq(sql.String(), ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}
