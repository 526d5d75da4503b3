package pgxstore

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet/internal/pgstore"
)

// Prepare completes the configuration of a pool that is made for a store:
//
//	config, err := pgxpool.ParseConfig(dsn)
//	...
//	pgxstore.Prepare(config)
//	pool, err := pgxpool.NewWithConfig(ctx, config)
//
// Each new connection then has the settings that the store's statements rest on, whatever the role
// or the database has by default: client_encoding, standard_conforming_strings, DateStyle and
// TimeZone, and, unless a pooler is between, jit off, no statement_timeout, the isolation level,
// and the search_path of the first connection. A wait for a synchronous standby that an
// administrator cancels is seen, which makes the write [stet.ErrUnconfirmed]. Of another pool,
// [Open] checks the settings that it finds, and such a wait is not seen. Hooks that c has already
// are called as well. Queries of the program on the pool have these settings, too.
func Prepare(c *pgxpool.Config) {
	for name, value := range pgstore.StartupSettings {
		c.ConnConfig.RuntimeParams[name] = value
	}
	if told := c.ConnConfig.OnNotice; told != nil {
		c.ConnConfig.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) { cuts.notice(conn, n); told(conn, n) }
	} else {
		c.ConnConfig.OnNotice = cuts.notice
	}
	connected, p := c.AfterConnect, &pins{}
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := p.set(ctx, conn); err != nil || connected == nil {
			return err
		}
		return connected(ctx, conn)
	}
}

// pins remembers what the first connection of a pool has found.
type pins struct {
	mu         sync.Mutex
	searchPath string
}

func (p *pins) set(ctx context.Context, conn *pgx.Conn) error {
	p.mu.Lock()
	path := p.searchPath
	p.mu.Unlock()
	err := conn.QueryRow(ctx, pgstore.PinSettings, pgx.QueryExecModeSimpleProtocol, int64(conn.PgConn().PID()), path).Scan(&path, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.searchPath == "" {
		p.searchPath = path
	}
	return err
}

// cutWaits are the connections whose server has said that a commit did not wait for its standby any
// longer, until the statement's caller takes notice.
type cutWaits struct {
	n     atomic.Int64 // of them: nearly always 0
	conns sync.Map
}

var cuts cutWaits

// notice is called while a statement's answer is read. The function of the server's source is the
// one thing about the message that does not depend on its language.
func (c *cutWaits) notice(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		if _, there := c.conns.Swap(conn, nil); !there {
			c.n.Add(1)
		}
	}
}

// take reports whether the last statement on conn was committed without its standby, and forgets
// it.
func (c *cutWaits) take(conn *pgx.Conn) bool {
	if c.n.Load() == 0 {
		return false
	}
	_, was := c.conns.LoadAndDelete(conn.PgConn())
	if was {
		c.n.Add(-1)
	}
	return was
}
