package pgstore

import (
	"context"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/storeid"
)

// Identity implements [stet.Identified].
func (s *Store) Identity(ctx context.Context) (now, known stet.Identity, err error) {
	err = s.during(ctx, "identity", func(ctx context.Context) (err error) { now, known, err = s.gate.Identity(ctx); return err })
	return now, known, err
}

// Know implements [stet.Identified].
func (s *Store) Know(known stet.Identity) { s.gate.Know(known) }

// Accept implements [stet.Identified].
func (s *Store) Accept(ctx context.Context) (now stet.Identity, err error) {
	err = s.during(ctx, "accept", func(ctx context.Context) (err error) { now, err = s.gate.Accept(ctx); return err })
	return now, err
}

// lookAt reads which store it is: see [storeid.Gate].
func (s *Store) lookAt(ctx context.Context) (stet.Identity, error) { return lookThrough(ctx, s.pool) }

func lookThrough(ctx context.Context, q Querier) (stet.Identity, error) {
	return storeRow(ctx, q, sqltext.PostgresLook)
}

func storeRow(ctx context.Context, q Querier, statement string, args ...any) (i stet.Identity, err error) {
	dest, identity := sqltext.PostgresStore()
	err = each(ctx, q, statement, args, func(rows Rows) error {
		err := rows.Scan(dest...)
		i = identity()
		return err
	})
	return i, err
}

func (s *Store) makeIdentity(ctx context.Context, was, next stet.Identity) error {
	statement, args := sqltext.PostgresMake, sqltext.PostgresStoreArgs(&next)
	if was.ID != "" {
		statement, args = sqltext.PostgresRename, append([]any{was.ID}, args...)
	}
	return each(ctx, s.pool, statement, args, func(Rows) error { return nil })
}

func (s *Store) raise(ctx context.Context, known stet.Identity, step string) (stet.Identity, error) {
	return storeRow(ctx, s.pool, sqltext.PostgresRaise, step, int64(storeid.TrailSize), known.ID, known.Mark)
}

// whole returns the arguments of a statement that writes, with those behind that say how long it
// waits for rows and which store it has to find.
func (s *Store) whole(args []any, lockTimeout string) []any {
	known := s.gate.Sight().Known
	return append(args[:len(args):len(args)], lockTimeout, known.ID, known.Mark)
}

// checkWithin returns why a write within a transaction found nothing to do, if that is because it
// is on another store. The mark there may be an old one: the store itself looks at it.
func (s *Store) checkWithin(ctx context.Context, q Querier) error {
	sight := s.gate.Sight()
	now, err := lookThrough(ctx, q)
	if err != nil || now.ID == sight.Known.ID {
		return err
	}
	return sight.Saw(now)
}
