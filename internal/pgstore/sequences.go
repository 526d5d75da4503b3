package pgstore

import (
	"context"
	"fmt"

	"github.com/stet-dev/stet/internal/sqltext"
)

// numbered selects the tables whose rows have a number above that which comes next, as after a
// restore of rows alone, or on a server that rows were replicated to: replication leaves sequences
// as they are. Of a sequence that the role may not read nothing is known.
var numbered = func() (sql string) {
	for i, table := range sqltext.PostgresNumbered {
		if i > 0 {
			sql += " UNION ALL "
		}
		sql += fmt.Sprintf(`SELECT '%[1]s', s.name, m.n FROM (SELECT max(id) AS n FROM %[1]s) m, (SELECT pg_get_serial_sequence('%[1]s', 'id') AS name) s
			WHERE m.n > CASE WHEN has_sequence_privilege(s.name, 'SELECT, USAGE') THEN coalesce(pg_sequence_last_value(s.name::regclass), 0) END`, table)
	}
	return sql
}()

// advance sets a sequence to a number unless it is there. Of several that do so at once each waits
// for the one before: what a sequence has is read after that.
const advance = `WITH l AS MATERIALIZED (SELECT pg_advisory_xact_lock(1937007989))
	SELECT setval($1::regclass, $2::bigint)::text FROM l WHERE coalesce(pg_sequence_last_value($1::regclass), 0) < $2::bigint`

// renumber sets sequences that were set back to where they were (S14): notes would fail, and pages
// of lists would miss rows. An error says what the owner of the tables has to do.
func renumber(ctx context.Context, q Querier) error {
	type late struct {
		table, sequence string
		last            int64
	}
	var all []late
	err := each(ctx, q, numbered, nil, func(rows Rows) error {
		var l late
		err := rows.Scan(&l.table, &l.sequence, &l.last)
		all = append(all, l)
		return err
	})
	if answered(err) == codeForbidden {
		return nil // the role may not use the outbox, or is told elsewhere
	}
	for _, l := range all {
		if err = each(ctx, q, advance, []any{l.sequence, l.last}, func(Rows) error { return nil }); err != nil {
			return fmt.Errorf("the numbers of %s were set back, so that new rows get numbers that are taken; as the owner of the table: "+
				"SELECT setval('%s', %d): %w", l.table, l.sequence, l.last, err)
		}
	}
	return err
}
