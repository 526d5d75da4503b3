package dsn

import (
	"context"
	"database/sql"
	"errors"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/pgxstore"
)

// postgresConfig is what the driver needs to know: parameters are its own, such as sslmode,
// pool_max_conns and, behind a pooler, default_query_exec_mode. Its errors are not repeated: they
// may quote the password.
func postgresConfig(address string) (*pgxpool.Config, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of postgres: cannot be read")
	}
	for _, secret := range []string{"password", "sslpassword", "user"} {
		if u.Query().Has(secret) { // parameters are shown in logs
			return nil, errors.New("postgres: user and password stand before the @, as in " + serverForm("postgres"))
		}
	}
	c, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, errors.New("postgres: a parameter cannot be read; there are sslmode, pool_max_conns, default_query_exec_mode and others of pgx")
	}
	if !u.Query().Has("pool_max_conns") {
		c.MaxConns = serverConns
	}
	pgxstore.Prepare(c)
	return c, nil
}

// postgres opens the store. Its schema is changed by an operator alone.
func (d DSN) postgres(ctx context.Context) (stet.Store, func() error, error) {
	c, err := postgresConfig(d.URL)
	if err != nil {
		return nil, nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, nil, d.unreachable(err)
	}
	s, err := pgxstore.Open(ctx, pool, pgxstore.Config{ListenDSN: d.Listen, AllowVolatile: d.Forget})
	if err != nil {
		pool.Close()
		return nil, nil, d.Failed(err)
	}
	return s, func() error { defer pool.Close(); return s.Close() }, nil
}

// Pooled reports whether db reaches Postgres through a pooler: the process that answers is not the
// one that was connected to.
func Pooled(ctx context.Context, db *sql.DB) (pooled bool, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	err = conn.Raw(func(driver any) error {
		c := driver.(*stdlib.Conn).Conn()
		var pid uint32
		err := c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
		pooled = pid != c.PgConn().PID()
		return err
	})
	return pooled, err
}
