package sqlstore

import (
	"context"

	"github.com/stet-dev/stet/internal/sqltext"
)

// Verify reads the whole file and compares the rows with their indexes, as SQLite does that itself.
// It returns a sentence for each damage, up to a hundred, and holds up no write. It takes as long
// as reading the file, and keeps the log from being truncated for as long.
func (s *sqlite) Verify(ctx context.Context) (found []string, err error) {
	rows, err := s.db.QueryContext(ctx, "PRAGMA integrity_check(100)")
	err = sqltext.EachRow(rows, err, func(row sqltext.Scanner) error {
		var text string
		err := row.Scan(&text)
		if text != "ok" {
			found = append(found, text)
		}
		return err
	})
	return found, wrap("verify", err)
}
