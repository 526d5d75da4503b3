package pgstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tablestore"
)

// bindTime is how long a transaction may take to say which database it is on.
const bindTime = 5 * time.Second

// Bind returns the store within tx, which has to be on the same database: it is asked, once for
// each connection that can be told apart, and once for each transaction otherwise. Nothing in it is
// grouped, tried again, or told to those who wait. As always in Postgres, a statement that fails
// spoils the transaction: after any error but the plain answers roll it back. While it holds a
// record, duplicates of it are answered, and the store's other writes of that record wait.
func (s *Store) Bind(tx any) (stet.Store, error) {
	q, notes, ok := s.cfg.Bind(tx)
	if !ok {
		return nil, fmt.Errorf("%s: bind: %w: it is a %T", s.cfg.Package, stet.ErrForeignTx, tx)
	}
	err := s.gate.Foreign()
	if err == nil {
		err = s.sameDatabase(q, notes)
	}
	if err != nil {
		return nil, s.wrap("bind", err)
	}
	lockTimeout := ""
	if d := s.cfg.LockTimeout; d > 0 {
		lockTimeout = strconv.FormatInt(max(1, d.Milliseconds()), 10)
	}
	around := func(ctx context.Context, op string, call func(context.Context) error) error {
		return s.wrap(op, call(ctx))
	}
	ctx, cancel := context.WithTimeout(context.Background(), bindTime)
	defer cancel()
	b, err := tablestore.Within(ctx, tablestore.Tx{
		Exec: func(ctx context.Context, statement string) error {
			return each(ctx, q, statement, nil, func(Rows) error { return nil })
		},
		Unmarked: func(err error) bool { c := answered(err); return c == codeNoSavepoint || c == codeNoTransaction },
		Undone:   func(error) bool { return false }, // it waits for a ROLLBACK, and until then refuses all statements
	}, tablestore.Reading{Reader: reader(q), Around: around}, tablestore.Driver[*op]{New: newOp, Pack: (*op).pack, Wrap: s.wrap,
		Do: func(o *op) error {
			if err := s.gate.Foreign(); err != nil {
				return err
			}
			return s.sendAlone(o, q, lockTimeout, true)
		},
		Get: func(ctx context.Context, id stet.ID) (stet.Record, error) { return get(ctx, q, id) },
		Append: func(ctx context.Context, c *stet.Change) error {
			if err := s.gate.Foreign(); err != nil {
				return err
			}
			return appendTo(ctx, q, c)
		}})
	if err != nil {
		return nil, s.wrap("bind", err)
	}
	return b, nil
}

// identity names the database and the table that unqualified statements of a session are about. It
// is the same on a standby that takes over, and fails nowhere: that would spoil the transaction.
const (
	identity      = "SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || " + identityThere
	identityThere = "oid || '/' || coalesce(to_regclass('stet_records')::oid::text, '') FROM pg_database WHERE datname = current_database()"
)

func (s *Store) identityOf(ctx context.Context, q Querier) (id string, err error) {
	err = each(ctx, q, s.whoAmI, nil, func(rows Rows) error { return rows.Scan(&id) })
	return id, err
}

// identify learns which database the store is on. Where its role may not ask for the server's name,
// databases of different servers are told apart by their numbers alone.
func (s *Store) identify(ctx context.Context) error {
	s.whoAmI = identity
	id, err := s.identityOf(ctx, s.pool)
	if answered(err) == codeForbidden {
		s.whoAmI = "SELECT " + identityThere
		id, err = s.identityOf(ctx, s.pool)
	}
	s.identity.Store(id)
	return err
}

// noteOf is under which a connection's notes hold its identity. They are under a lock of all
// stores: a transaction that has ended still leads to its connection, which another one has by
// then.
const noteOf = "github.com/stet-dev/stet: identity"

var noting sync.Mutex

func noted(notes map[string]any) any {
	noting.Lock()
	defer noting.Unlock()
	return notes[noteOf]
}

func note(notes map[string]any, id string) {
	if notes != nil {
		noting.Lock()
		defer noting.Unlock()
		notes[noteOf] = id
	}
}

// sameDatabase is [stet.ErrForeignTx] where q is on another database than the store, whose identity
// is read again then: what was restored from a copy has another.
func (s *Store) sameDatabase(q Querier, notes map[string]any) (err error) {
	if noted(notes) == s.identity.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), bindTime)
	defer cancel()
	its, err := s.identityOf(ctx, q)
	if err != nil {
		return err
	}
	if its != s.identity.Load() {
		own, err := s.identityOf(ctx, s.pool)
		if err != nil {
			return err
		}
		if s.identity.Store(own); its != own {
			return fmt.Errorf("%w: it is on another database, or in another schema (search_path), than the store", stet.ErrForeignTx)
		}
	}
	note(notes, its)
	return nil
}
