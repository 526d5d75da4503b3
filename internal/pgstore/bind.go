package pgstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/stet-dev/stet"
)

// Bind returns the store within tx, on the same database. Nothing in it is grouped, tried again, or told to those who wait. As
// always in Postgres, a statement that fails spoils the transaction: after any error but the plain answers roll it back. While
// it holds a record, duplicates of it are answered, and the store's other writes of that record wait.
func (s *Store) Bind(tx any) (stet.Store, error) {
	q, ok := s.cfg.Bind(tx)
	if !ok {
		return nil, fmt.Errorf("%s: bind: %w: it is a %T", s.cfg.Package, stet.ErrForeignTx, tx)
	}
	b := bound{q: q, s: s}
	if d := s.cfg.LockTimeout; d > 0 {
		b.lockTimeout = strconv.FormatInt(max(1, d.Milliseconds()), 10)
	}
	return b, nil
}

// bound is a store within a transaction.
type bound struct {
	q           Querier
	s           *Store
	lockTimeout string
}

func (b bound) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	o, err := createOp(ctx, &r)
	if err == nil {
		err = o.alone(b.q, b.lockTimeout, false)
	}
	return o.created(&r, b.s.wrap("create", err))
}

func (b bound) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	r, err := get(ctx, b.q, id)
	return r, b.s.wrap("get", err)
}

func (b bound) Replace(ctx context.Context, prev stet.Version, h stet.Head, body *stet.Body) (stet.Head, error) {
	o, err := replaceOp(ctx, prev, &h, body)
	if err == nil {
		err = o.alone(b.q, b.lockTimeout, false)
	}
	return o.replaced(b.s.wrap("replace", err))
}

func (b bound) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	return b.s.wrap("delete", deleteOp(ctx, id, prev).alone(b.q, b.lockTimeout, false))
}

func (b bound) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := due(ctx, b.q, q)
	return heads, next, b.s.wrap("due", err)
}
