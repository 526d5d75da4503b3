package sqlstore

import (
	"context"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Append adds an entry that tells of no change.
func (s *mysql) Append(ctx context.Context, c stet.Change) error {
	return wrap("append", s.writes.with(ctx, func(l *lane) error { return appendMySQL(ctx, l, &c) }))
}

func (b *boundMySQL) Append(ctx context.Context, c stet.Change) error {
	return wrap("append", appendMySQL(ctx, b.tx, &c))
}

func appendMySQL(ctx context.Context, c querier, change *stet.Change) error {
	q, err := sqltext.MySQLAppend(change)
	if err == nil {
		_, _, err = exec(ctx, c, q)
	}
	return err
}
