package pgxstore

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"

	"github.com/stet-dev/stet/internal/sqltext"
)

// Execer is tx as package outbox takes it:
//
//	err = box.Add(ctx, pgxstore.Execer(tx), outbox.Message{Topic: "receipt", Payload: payload})
func Execer(tx pgx.Tx) interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
} {
	return execer{tx}
}

type execer struct{ tx pgx.Tx }

func (e execer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := e.tx.Exec(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(tag.RowsAffected()), nil
}

// OutboxListener is a Listen of outbox.Worker: it wakes the worker as soon as a transaction with a message commits. It holds one
// connection of its own, which config, such as a pool's Config().ConnConfig, says how to make. That has to lead to the server
// itself: through a pooler nobody can listen, and then it waits in silence while the worker polls.
func OutboxListener(config *pgx.ConnConfig) func(ctx context.Context, wake func()) error {
	hear := listen(config)
	return func(ctx context.Context, wake func()) error {
		return hear(ctx, sqltext.PostgresOutboxChannel, wake, func(string) { wake() })
	}
}
