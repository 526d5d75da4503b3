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

// PostgresGrants are the rights that a role needs besides the owner of the tables, as comments of a
// script.
const PostgresGrants = `
-- The role that runs this script owns the tables, and runs the scripts of later versions, too. A gateway may have a role of its
-- own, such as stet_gateway, in which case the owner runs these as well:
-- GRANT USAGE ON SCHEMA public TO stet_gateway;
-- GRANT SELECT ON stet_schema, stet_keys TO stet_gateway;
-- GRANT SELECT, INSERT, UPDATE ON stet_store TO stet_gateway;
-- (UPDATE and DELETE of the history are for audit.retain_days and stet audit erase)
-- GRANT SELECT, INSERT, UPDATE, DELETE ON stet_history TO stet_gateway;
-- GRANT SELECT, INSERT, UPDATE, DELETE ON stet_records, stet_outbox TO stet_gateway;
`

// Migration is the schema that a database has, and the one that this program needs, each by the
// number of its last step.
//
// A release may only add what the release before can leave alone, such as a table, or a column with
// a default; what is not used any more is removed one release later. So a gateway of the release
// before goes on, and may be started again, on the schema of the next. Each step after the fourth
// says which is the oldest program that works with it, by a row of stet_schema with that number
// below zero.
type Migration struct {
	Have   int // 0: there is none
	Oldest int // the oldest program that works with it; 0: nothing is said
	Want   int
}

// Newer reports whether a newer program has made the schema, and this one works with it.
func (m Migration) Newer() bool { return m.Have > m.Want && m.Oldest > 0 && m.Oldest <= m.Want }

// Check returns an error for the package pkg, which wraps errSchema and says what to do, unless
// this program works with the schema.
func (m Migration) Check(pkg string, errSchema error) error {
	switch {
	case m.Have > m.Want && !m.Newer():
		return fmt.Errorf("%w: a newer program has made it version %d, and this one knows %d: start the newer one", errSchema, m.Have, m.Want)
	case m.Have < m.Want:
		return fmt.Errorf("%w: it has version %d, and %d is needed; run `stet migrate up`, or %s.Migrate", errSchema, m.Have, m.Want, pkg)
	}
	return nil
}

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
