package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/stet-dev/stet/internal/sqltext"
)

// ErrNewer: the schema was made by a newer program.
var ErrNewer = errors.New("the schema is newer")

const (
	// SchemaTable is the statement that makes the table of steps taken.
	SchemaTable = "CREATE TABLE IF NOT EXISTS stet_schema (version INTEGER PRIMARY KEY)"
	// lock makes others wait who migrate the same database; it ends with the transaction. The
	// number is "stet".
	lock       = "SELECT pg_advisory_xact_lock(1937007988)::text"
	hasSchema  = "SELECT count(*) FROM pg_catalog.pg_class WHERE oid = to_regclass('stet_schema')"
	lastSchema = "SELECT coalesce(max(version), 0)::bigint FROM stet_schema"
)

// Status returns the number of the last step the database has taken, 0 for none, and of the last
// one this program knows. It changes nothing.
func Status(ctx context.Context, q Querier) (have, want int, err error) {
	var n int64
	scan := func(rows Rows) error { return rows.Scan(&n) }
	if err := each(ctx, q, hasSchema, nil, scan); err != nil {
		return 0, 0, fmt.Errorf("schema: %w", err)
	}
	if n > 0 {
		if err := each(ctx, q, lastSchema, nil, scan); err != nil {
			return 0, 0, fmt.Errorf("schema: %w", err)
		}
	}
	return int(n), len(Steps()), nil
}

// Migrate takes all steps that are missing, in the transaction tx, which the caller commits: all of
// them or none. Any number of processes may do so at once.
func Migrate(ctx context.Context, tx Querier) error {
	run := func(sql string) error { return each(ctx, tx, sql, nil, func(Rows) error { return nil }) }
	if err := run(lock); err != nil {
		return err
	}
	if err := run(SchemaTable); err != nil {
		return err
	}
	have, want, err := Status(ctx, tx)
	if err != nil || have > want {
		return err
	}
	for i, step := range Steps()[have:] {
		for _, statement := range append(statements(step), fmt.Sprintf("INSERT INTO stet_schema (version) VALUES (%d)", have+i+1)) {
			if err := run(statement); err != nil {
				return fmt.Errorf("step %d: %w", have+i+1, err)
			}
		}
	}
	return nil
}

// Steps are the migrations in order, each of several statements.
func Steps() []string {
	files := sqltext.PostgresMigrations()
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

// statements takes a step apart: the extended protocol takes one at a time.
func statements(step string) (all []string) {
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
