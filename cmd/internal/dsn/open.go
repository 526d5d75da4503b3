package dsn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/filestore"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

// ErrUnreachable: the store is not there, or cannot be opened.
var ErrUnreachable = errors.New("the store cannot be reached")

// Opened is a store with what it stands on.
type Opened struct {
	stet.Store
	Close    func() error
	Warnings []string         // of settings that lose records
	Clock    func() time.Time // what a faulty store goes by; nil: the host's

	// DB is the database of an SQL store, for its outbox: a pool of its own, which connects when it
	// is used. nil: there is none.
	DB      *sql.DB
	Dialect sqlstore.Dialect
}

// Use says what a store is opened for.
type Use uint8

const (
	Serve Use = iota // as a gateway: an embedded store is created, and its schema brought up to date
	Look             // as an operator: what is not there is an error
)

// Open opens the store. The error is [ErrUnreachable], or a setting the store refuses.
func (d DSN) Open(ctx context.Context, use Use) (*Opened, error) {
	var clock func() time.Time
	wrap := func(s stet.Store) (stet.Store, func() error, error) { return s, func() error { return nil }, nil }
	if d.Faulty {
		clock, wrap = d.faults()
	}
	d.Forget = d.Forget || use == Look // a look changes nothing of what its server loses
	var warnings []string
	s, closeStore, err := d.open(ctx, use, clock, func(text string) { warnings = append(warnings, text) })
	if err != nil {
		return nil, err
	}
	s, unwrap, err := wrap(s)
	if err != nil {
		return nil, errors.Join(err, closeStore())
	}
	o := &Opened{Store: s, Close: func() error { return errors.Join(unwrap(), closeStore()) }, Warnings: warnings, Clock: clock,
		Dialect: d.Dialect()}
	if o.Dialect == "" {
		return o, nil
	}
	if o.DB, err = d.DB(Look); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	o.DB.SetMaxOpenConns(outboxConns)
	o.DB.SetMaxIdleConns(1)
	o.Close = func() error { return errors.Join(o.DB.Close(), unwrap(), closeStore()) }
	return o, nil
}

// outboxConns is the number of connections for operators' requests to the outbox, so that a list
// does not wait for a message that is being settled.
const outboxConns = 4

func (d DSN) open(ctx context.Context, use Use, clock func() time.Time, warn func(string)) (stet.Store, func() error, error) {
	if err := d.there(use); err != nil {
		return nil, nil, err
	}
	switch d.Scheme {
	case "memory":
		return memstore.New(memstore.Config{MaxKeys: d.MaxKeys, Clock: clock}), func() error { return nil }, nil
	case "file":
		s, err := filestore.Open(d.Path, filestore.Config{Clock: clock})
		if err != nil {
			return nil, nil, d.unreachable(err)
		}
		return s, s.Close, nil
	case "postgres":
		return d.postgres(ctx)
	case "redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel":
		return d.openRedis(ctx, warn)
	case "sqlite", "mysql":
		return d.sql(ctx, use, clock)
	}
	panic("dsn: a store nobody parsed: " + d.Scheme)
}

// sqlConns are the connections of a SQLite store: its readers, its writer, and some for lists.
const sqlConns = sqlstore.DefaultReaders + 4

// sql opens an SQL store. The schema of an embedded one is made; that of a server is changed by an
// operator alone.
func (d DSN) sql(ctx context.Context, use Use, clock func() time.Time) (stet.Store, func() error, error) {
	db, err := d.DB(use)
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) (stet.Store, func() error, error) {
		if denied := d.denied(); denied != nil {
			err = fmt.Errorf("%w: %w", denied, err)
		}
		return nil, nil, errors.Join(d.Failed(err), db.Close())
	}
	if use == Serve && !d.Shared() {
		if err := sqlstore.Migrate(ctx, db, d.Dialect()); err != nil {
			return fail(err)
		}
	}
	c := sqlstore.Config{Dialect: d.Dialect(), Clock: clock, AllowVolatile: d.Forget}
	if d.Shared() {
		c.Readers = serverReaders
	} else {
		c.Path = d.Place()
	}
	s, err := sqlstore.Open(ctx, db, c)
	if err != nil {
		return fail(err)
	}
	return s, func() error { return errors.Join(s.Close(), db.Close()) }, nil
}

// DB opens the database of an SQL store, without looking at its schema.
func (d DSN) DB(use Use) (*sql.DB, error) {
	if d.Shared() {
		return d.connect()
	}
	if err := d.there(use); err != nil {
		return nil, err
	}
	if at, err := os.Stat(d.Path); err == nil && at.IsDir() {
		return nil, fmt.Errorf("%w: %s is a directory; name a file in it, as in sqlite:%s", ErrUnreachable, d, filepath.Join(d.Path, "stet.db"))
	}
	if use == Serve {
		if err := private(d.Path); err != nil {
			return nil, d.unreachable(err)
		}
	}
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(d.Path))
	if err != nil {
		return nil, d.unreachable(err)
	}
	db.SetMaxOpenConns(sqlConns)
	db.SetMaxIdleConns(sqlConns)
	return db, nil
}

// private makes the file, if there is none, for its owner alone: it holds keys and responses in the
// clear, and SQLite would make it as readable as the umask lets it. The files SQLite puts beside it
// take after it.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// denied returns what keeps this user from the files of an embedded SQL store, of which SQLite tells a
// number (Q16); nil if nothing does.
func (d DSN) denied() error {
	if d.Shared() {
		return nil
	}
	f, err := os.OpenFile(d.Path, os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(f.Close(), d.makes()) // SQLite puts files beside it
	}
	if !errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return fmt.Errorf("%w; run this program as the user that %s belongs to, or let its user read and write that file and its directory", err, d.Path)
}

// Makeable returns why a store in files could not be made by a gateway, or nil.
func (d DSN) Makeable() error {
	if err := d.there(Serve); err != nil {
		return err
	}
	if err := d.makes(); err != nil {
		return d.unreachable(err)
	}
	return nil
}

// makes proves that files can be made beside the store's.
func (d DSN) makes() error {
	f, err := os.CreateTemp(filepath.Dir(d.Path), ".stet-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// there checks that what is only looked at exists, so that looking does not make it, and otherwise
// that it can be made.
func (d DSN) there(use Use) error {
	path := d.Path
	switch {
	case !d.Persistent(), d.Shared():
		return nil
	case use == Serve:
		path = filepath.Dir(path)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if use == Serve {
			return fmt.Errorf("%w: %s: there is no directory %s; make it, or choose another --store", ErrUnreachable, d, path)
		}
		return fmt.Errorf("%w: %s: there is no %s; a gateway makes it, or is it another --store?", ErrUnreachable, d, path)
	} else if err != nil {
		return d.unreachable(err)
	}
	return nil
}

// Failed tells a schema that does not fit, and a server that may lose records, which an operator
// can change, from a database that does not answer.
func (d DSN) Failed(err error) error {
	if errors.Is(err, sqlstore.ErrSchema) || errors.Is(err, pgxstore.ErrSchema) {
		if strings.Contains(err.Error(), "stet migrate up") { // without a flag it would make a store of its own
			return fmt.Errorf("%s: %w; for this store: stet migrate up %s", d, err, d.Flag())
		}
		return fmt.Errorf("%s: %w", d, err)
	}
	if errors.Is(err, stet.ErrVolatile) {
		return fmt.Errorf("%s: %w; or set store.allow_volatile, if a forgotten key may run again", d, err)
	}
	return d.unreachable(err)
}

func (d DSN) unreachable(err error) error { return fmt.Errorf("%w: %s: %w", ErrUnreachable, d, err) }
