package main

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/store/sqlstore"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Bring the schema up to date; safe to repeat, and from several processes at once."`
	Status migrateStatusCmd `cmd:"" help:"Print the version of the schema; changes nothing."`
	SQL    migrateSQLCmd    `cmd:"" name:"sql" help:"Print the SQL statements instead of running them."`
}

// storeFlag names a store. Embedded stores create their schema when a gateway opens them.
type storeFlag struct {
	Config string `placeholder:"FILE" env:"STET_CONFIG" help:"The gateway's configuration file, for its store; --store overrides it."`
	Store  string `placeholder:"DSN" env:"STET_STORE" help:"The database: sqlite:PATH, postgres://… or mysql://… (sqlite:stet.db)."`
}

// check implements [checked].
func (f *storeFlag) check(*world) error {
	_, _, err := storeOf(f.Config, f.Store)
	return err
}

type migrateUpCmd struct{ storeFlag }

func (c *migrateUpCmd) Run(w *world) error {
	return c.database(w, dsn.Serve, func(d dsn.DSN, db *sql.DB, have, want int) error {
		if err := sqlstore.Migrate(w.ctx, db, d.Dialect()); err != nil {
			return err
		}
		return w.printf("%s: the schema is version %d\n", d, max(have, want))
	})
}

type migrateStatusCmd struct{ storeFlag }

func (c *migrateStatusCmd) Run(w *world) error {
	return c.database(w, dsn.Look, func(d dsn.DSN, db *sql.DB, have, want int) error {
		verdict := "up to date"
		switch {
		case have < want:
			verdict = fmt.Sprintf("version %d is needed; stet migrate up %s", want, d.Flag())
		case have > want && sqlstore.Check(w.ctx, db, d.Dialect()) != nil:
			verdict = fmt.Sprintf("made by a newer stet; this one knows version %d, and cannot work with it", want)
		case have > want:
			verdict = fmt.Sprintf("made by a newer stet; this one knows version %d, and works with it", want)
		}
		return w.printf("%s: the schema is version %d: %s\n", d, have, verdict)
	})
}

type migrateSQLCmd struct {
	storeFlag
	From int `placeholder:"N" help:"Only the steps after this version, as stet migrate status prints it (0)."`
}

func (c *migrateSQLCmd) Run(w *world) error {
	return c.schema(w, func(d dsn.DSN) error { return w.printf("%s", d.Dialect().SQL(c.From)) })
}

// schema calls act with the address of an SQL store. With other stores there is nothing to do, and
// that is fine.
func (f *storeFlag) schema(w *world, act func(dsn.DSN) error) error {
	_, d, err := storeOf(f.Config, f.Store)
	switch {
	case err != nil:
		return err
	case d.Dialect() == "":
		return errorOf(fmt.Fprintf(w.stderr, "%s has no schema\n", d))
	}
	return act(d)
}

// database opens the store, and calls act with the version that its schema has, and the one that it
// should have.
func (f *storeFlag) database(w *world, use dsn.Use, act func(d dsn.DSN, db *sql.DB, have, want int) error) error {
	return f.schema(w, func(d dsn.DSN) error {
		db, err := d.DB(use)
		if err != nil {
			return err
		}
		have, want, err := sqlstore.Status(w.ctx, db, d.Dialect())
		if err == nil {
			err = act(d, db, have, want)
		}
		if err != nil {
			err = d.Failed(err)
		}
		return errors.Join(err, db.Close())
	})
}
