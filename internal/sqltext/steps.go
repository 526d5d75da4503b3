package sqltext

import (
	"embed"
	"fmt"
	"strings"
)

const (
	// SchemaTable is the statement that makes the table of steps taken.
	SchemaTable = "CREATE TABLE IF NOT EXISTS stet_schema (version INTEGER PRIMARY KEY)"
	// PostgresHasSchema selects how many of these tables there are.
	PostgresHasSchema = "SELECT count(*) FROM pg_catalog.pg_class WHERE oid = to_regclass('stet_schema')"
)

//go:embed sqlite mysql postgres
var migrations embed.FS

// Steps returns the migrations of a dialect (sqlite, mysql or postgres) to today's schema, in
// order, each of several statements: see [Statements].
func Steps(dialect string) (steps []string) {
	files, err := migrations.ReadDir(dialect) // sorted
	for i := 0; err == nil && i < len(files); i++ {
		var step []byte
		step, err = migrations.ReadFile(dialect + "/" + files[i].Name())
		steps = append(steps, string(step))
	}
	if err != nil {
		panic(err) // they are embedded
	}
	return steps
}

// Take has run carry out the statements of the steps that come after the first have of them.
func Take(steps []string, have int, run func(statement string) error) error {
	for i := have; i < len(steps); i++ {
		number := fmt.Sprintf("INSERT INTO stet_schema (version) VALUES (%d)", i+1)
		for _, statement := range append(Statements(steps[i]), number) {
			if err := run(statement); err != nil {
				return fmt.Errorf("step %d: %w", i+1, err)
			}
		}
	}
	return nil
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
