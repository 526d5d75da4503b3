package pgxstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// closeTime bounds the orderly end of the connection that listens.
const closeTime = time.Second

// listen returns a function that listens on a connection of its own. It uses the simple protocol,
// which every pooler supports.
func listen(config *pgx.ConnConfig) func(ctx context.Context, channel string, ready func(), heard func(string)) error {
	return func(ctx context.Context, channel string, ready func(), heard func(string)) error {
		conn, err := pgx.ConnectConfig(ctx, config.Copy())
		if err != nil {
			return err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
			defer cancel()
			_ = conn.Close(ctx)
		}()
		var pid int64
		if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()::bigint", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
			return err
		}
		if pid != int64(conn.PgConn().PID()) { // a pooler: notifications would reach another client
			<-ctx.Done()
			return ctx.Err()
		}
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize(), pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		ready()
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				return err
			}
			heard(n.Payload)
		}
	}
}
