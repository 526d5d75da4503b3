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
	_, err := f.parse()
	return err
}

func (f storeFlag) parse() (dsn.DSN, error) {
	_, d, err := storeOf(f.Config, f.Store)
	return d, err
}

type migrateUpCmd struct{ storeFlag }

func (c *migrateUpCmd) Run(w *world) error {
	d, err := c.parse()
	if err != nil {
		return err
	}
	return c.database(w, d, dsn.Serve, func(m migration) error {
		if err := sqlstore.Migrate(w.ctx, m.DB, d.Dialect()); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w.stdout, "%s: the schema is version %d\n", d, m.want)
		return err
	})
}

type migrateStatusCmd struct{ storeFlag }

func (c *migrateStatusCmd) Run(w *world) error {
	d, err := c.parse()
	if err != nil {
		return err
	}
	return c.database(w, d, dsn.Look, func(m migration) error {
		verdict := "up to date"
		switch {
		case m.have < m.want:
			verdict = fmt.Sprintf("version %d is needed; stet migrate up %s", m.want, d.Flag())
		case m.have > m.want:
			verdict = fmt.Sprintf("made by a newer stet; this one knows version %d", m.want)
		}
		_, err := fmt.Fprintf(w.stdout, "%s: the schema is version %d: %s\n", d, m.have, verdict)
		return err
	})
}

type migrateSQLCmd struct{ storeFlag }

func (c *migrateSQLCmd) Run(w *world) error {
	d, err := c.parse()
	if err != nil {
		return err
	}
	if d.Dialect() == "" {
		return schemaless(w, d)
	}
	_, err = fmt.Fprint(w.stdout, d.Dialect().SQL())
	return err
}

// schemaless: there is nothing to migrate, and that is fine.
func schemaless(w *world, d dsn.DSN) error {
	_, err := fmt.Fprintf(w.stderr, "%s has no schema\n", d)
	return err
}

type migration struct {
	*sql.DB
	have, want int
}

// sql calls f with the database of an SQL store; with other stores there is nothing to do.
func (storeFlag) database(w *world, d dsn.DSN, use dsn.Use, f func(migration) error) error {
	if d.Dialect() == "" {
		return schemaless(w, d)
	}
	db, err := d.DB(use)
	if err != nil {
		return err
	}
	have, want, err := sqlstore.Status(w.ctx, db, d.Dialect())
	if err == nil {
		err = f(migration{db, have, want})
	}
	if err != nil {
		err = d.Failed(err)
	}
	return errors.Join(err, db.Close())
}
