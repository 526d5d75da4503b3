package sqlstore

import (
	"context"

	"github.com/stet-dev/stet/internal/sqltext"
)

// Verify has the server read its tables and compare their rows with their indexes (CHECK TABLE). It
// returns a sentence for each damage, holds up no write, and takes as long as reading the tables.
func (s *mysql) Verify(ctx context.Context) (found []string, err error) {
	err = s.asking(ctx, func(on asker) error {
		rows, err := on.QueryContext(ctx, sqltext.MySQLVerify)
		return fault(sqltext.EachRow(rows, err, func(row sqltext.Scanner) error {
			var table, op, kind, text string
			err := row.Scan(&table, &op, &kind, &text)
			if kind != "note" && (kind != "status" || text != "OK") {
				found = append(found, table+": "+text)
			}
			return err
		}))
	})
	return found, wrap("verify", err)
}
