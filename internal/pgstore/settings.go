package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
)

const oldest = 120000 // server_version_num: MATERIALIZED

// settings are those of a server, and of a session with it, that a promise of the store rests on.
type settings struct {
	version             int64
	encoding, isolation string
	standby             bool
	fsync, pages        string
	commits             string
	unlogged            bool
}

func readSettings(ctx context.Context, q Querier) (s settings, err error) {
	err = each(ctx, q, `SELECT current_setting('server_version_num')::bigint, current_setting('server_encoding'),
		current_setting('default_transaction_isolation'), pg_is_in_recovery(), current_setting('fsync'), current_setting('full_page_writes'),
		current_setting('synchronous_commit'), coalesce((SELECT relpersistence <> 'p' FROM pg_class WHERE oid = to_regclass('stet_records')), false)`,
		nil, func(rows Rows) error {
			return rows.Scan(&s.version, &s.encoding, &s.isolation, &s.standby, &s.fsync, &s.pages, &s.commits, &s.unlogged)
		})
	return s, err
}

// usable refuses a server that the store's statements do not work with, and says what to do.
func (s *settings) usable() error {
	switch {
	case s.version < oldest:
		return fmt.Errorf("the server is Postgres %d; 12 or newer is needed", s.version/10000)
	case s.encoding != "UTF8":
		return fmt.Errorf("the database's encoding is %s and has to be UTF8: another one refuses names; "+
			"CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", s.encoding)
	case s.standby:
		return errors.New("the server is a standby, which takes no writes")
	case s.isolation == "serializable" || s.isolation == "repeatable read":
		return fmt.Errorf("default_transaction_isolation is %q: a write that waited for another would fail instead of saying "+
			"what it found; set it to 'read committed' for this role or in the DSN", s.isolation)
	}
	return nil
}

// durable is [stet.ErrVolatile] where a crash can undo what was acknowledged (W30), and says what to do.
func (s *settings) durable() error {
	switch {
	case s.fsync != "on":
		return fmt.Errorf("%w: fsync is %s: a crash of the machine can undo it, or spoil the whole database; set fsync to on in postgresql.conf "+
			"and reload", stet.ErrVolatile, s.fsync)
	case s.pages != "on":
		return fmt.Errorf("%w: full_page_writes is %s: a page that was half written when the power failed cannot be repaired; "+
			"set full_page_writes to on in postgresql.conf and reload", stet.ErrVolatile, s.pages)
	case s.commits == "off":
		return fmt.Errorf("%w: synchronous_commit is off: the last commits can be lost in a crash; set it to on or local, for this role or "+
			"in the DSN", stet.ErrVolatile)
	case s.unlogged:
		return fmt.Errorf("%w: the table stet_records is unlogged: a crash empties it; ALTER TABLE stet_records SET LOGGED, and the same for "+
			"stet_history", stet.ErrVolatile)
	}
	return nil
}

// check refuses a server, or a setting, that a promise of the store does not hold with.
func check(ctx context.Context, q Querier, volatile bool) error {
	s, err := readSettings(ctx, q)
	if err == nil {
		err = s.usable()
	}
	if err == nil && !volatile {
		err = s.durable()
	}
	return err
}

// Check implements [stet.Checker]: a reload of the server's configuration, or a failover to another one, changes what was true
// when the store was opened.
func (s *Store) Check(ctx context.Context) error {
	return s.during(ctx, "check", func(ctx context.Context) error {
		now, err := readSettings(ctx, s.pool)
		if err == nil && !s.cfg.Volatile {
			err = now.durable()
		}
		return err
	})
}
