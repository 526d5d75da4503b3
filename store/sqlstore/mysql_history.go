package sqlstore

import (
	"context"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

func appendMySQL(ctx context.Context, c querier, change *stet.Change) error {
	q, err := sqltext.MySQLAppend(change)
	if err == nil {
		_, _, err = exec(ctx, c, q)
	}
	return err
}
