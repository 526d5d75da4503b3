package pgxstore

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"

	"github.com/stet-dev/stet/internal/sqltext"
)

// Execer returns tx in the form that package outbox takes:
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

// OutboxListener returns a Listen for outbox.Worker, which wakes the worker as soon as a
// transaction with a message commits. It keeps one connection of its own, made by config, such as a
// pool's Config().ConnConfig. The connection must lead to the server itself. A connection through a
// pooler cannot listen: then the function waits without waking the worker, which polls.
func OutboxListener(config *pgx.ConnConfig) func(ctx context.Context, wake func()) error {
	hear := listen(config)
	return func(ctx context.Context, wake func()) error {
		return hear(ctx, sqltext.PostgresOutboxChannel, wake, func(string) { wake() })
	}
}
