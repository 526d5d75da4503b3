package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stet-dev/stet"
)

const oldest = 120000 // server_version_num: MATERIALIZED

// StartupSettings are settings that a connection asks for when it begins. A pooler knows them, and
// gives them to each of its connections that serves this one.
var StartupSettings = map[string]string{
	"client_encoding": "UTF8", "standard_conforming_strings": "on", "DateStyle": "ISO, MDY", "TimeZone": "UTC",
}

// PinSettings gives a session what the store's statements rest on besides, and answers with its
// search_path. Its arguments are the number of the process that was connected to, and the
// search_path, "" for the one that is there. Where another process answers, a pooler is between:
// the session is also that of others, and stays as it is.
const PinSettings = `SELECT current_setting('search_path'), (SELECT count(set_config(name, value, false)) FROM (VALUES
	('jit', 'off'), ('statement_timeout', '0'), ('client_min_messages', 'notice'), ('bytea_output', 'hex'), ('array_nulls', 'on'),
	('default_transaction_isolation', 'read committed'), ('default_transaction_read_only', 'off'),
	('search_path', coalesce(nullif($2::text, ''), current_setting('search_path')))) s (name, value) WHERE pg_backend_pid() = $1::bigint)`

// settings are those of a server, and of a session with it, that a promise of the store rests on.
type settings struct {
	version             int64
	encoding, isolation string
	client              string // the encoding of what is sent
	strings             string // standard_conforming_strings
	nulls               string // array_nulls
	readOnly            string
	quiet               bool // warnings are not told
	hidden              bool // by row-level security
	standby             bool
	fsync, pages        string
	commits             string
	unlogged            bool
}

func readSettings(ctx context.Context, q Querier) (s settings, err error) {
	err = each(ctx, q, `SELECT current_setting('server_version_num')::bigint, current_setting('server_encoding'),
		current_setting('default_transaction_isolation'), pg_is_in_recovery(), current_setting('fsync'), current_setting('full_page_writes'),
		current_setting('client_encoding'), current_setting('standard_conforming_strings'), current_setting('array_nulls'),
		current_setting('default_transaction_read_only'), current_setting('client_min_messages') = 'error',
		coalesce(row_security_active(to_regclass('stet_records')::oid), false),
		current_setting('synchronous_commit'), coalesce((SELECT relpersistence <> 'p' FROM pg_class WHERE oid = to_regclass('stet_records')), false)`,
		nil, func(rows Rows) error {
			return rows.Scan(&s.version, &s.encoding, &s.isolation, &s.standby, &s.fsync, &s.pages,
				&s.client, &s.strings, &s.nulls, &s.readOnly, &s.quiet, &s.hidden, &s.commits, &s.unlogged)
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
		return errors.New("the server is a standby, which takes no writes; name the primary in the address, or all of them with " +
			"target_session_attrs=read-write")
	case s.client != "UTF8":
		return fmt.Errorf("client_encoding is %s for this session, which would change names; remove it from the role (ALTER ROLE … RESET "+
			"client_encoding), the database or the address, or make the pool with pgxstore.Prepare", s.client)
	case s.strings != "on", s.nulls != "on":
		return fmt.Errorf("standard_conforming_strings is %s and array_nulls is %s, and both have to be on: the statements would mean something "+
			"else; ALTER ROLE … RESET them, or make the pool with pgxstore.Prepare", s.strings, s.nulls)
	case s.readOnly != "off":
		return errors.New("default_transaction_read_only is on, so that no write is taken; ALTER ROLE … SET default_transaction_read_only = off, " +
			"or make the pool with pgxstore.Prepare")
	case s.quiet:
		return errors.New("client_min_messages is error, which hides the warning that a standby does not have a write; " +
			"ALTER ROLE … RESET client_min_messages, or make the pool with pgxstore.Prepare")
	case s.hidden:
		return errors.New("row-level security hides records from this role, and a key that it cannot see would look new; " +
			"ALTER TABLE stet_records DISABLE ROW LEVEL SECURITY, or give the role BYPASSRLS")
	case s.isolation == "serializable" || s.isolation == "repeatable read":
		return fmt.Errorf("default_transaction_isolation is %q: a write that waited for another would fail instead of saying "+
			"what it found; set it to 'read committed' for this role or in the DSN", s.isolation)
	}
	return nil
}

// durable is [stet.ErrVolatile] where a crash can undo what was acknowledged (W30), and says what
// to do.
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

// otherServers speak the protocol of Postgres and are none: each by what its version says of it,
// and what a store would rest on there that it does not have.
var otherServers = []struct{ says, name, lacks string }{
	{"CockroachDB", "CockroachDB", "it has no LISTEN, no advisory locks, and other isolation"},
	{"-YB-", "YugabyteDB", "its locks and its waits for them are others"},
	{"Redshift", "Amazon Redshift", "it has no unique keys"},
}

// original refuses a server that is not Postgres. It is asked by itself: others may not understand
// what Postgres is asked next.
func original(ctx context.Context, q Querier) error {
	var version string
	if err := each(ctx, q, "SELECT version()", nil, func(rows Rows) error { return rows.Scan(&version) }); err != nil {
		return err
	}
	for _, other := range otherServers {
		if strings.Contains(version, other.says) {
			return fmt.Errorf("the server is %s, which this store was not made for: %s; use Postgres, or another store", other.name, other.lacks)
		}
	}
	return nil
}

// check refuses a server, or a setting, that a promise of the store does not hold with.
func check(ctx context.Context, q Querier, volatile bool) error {
	if err := original(ctx, q); err != nil {
		return err
	}
	s, err := readSettings(ctx, q)
	if err == nil {
		err = s.usable()
	}
	if err == nil {
		err = renumber(ctx, q)
	}
	if err == nil && !volatile {
		err = s.durable()
	}
	return err
}

// Check implements [stet.Checker]: a reload of the server's configuration, or a failover to another
// one, changes what was true when the store was opened.
func (s *Store) Check(ctx context.Context) error {
	return s.during(ctx, "check", func(ctx context.Context) error {
		now, err := readSettings(ctx, s.pool)
		if err == nil && !s.cfg.Volatile {
			err = now.durable()
		}
		return err
	})
}
