package tierstore

import (
	"context"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

// binder has the abilities of the origin. With [Config].InFlight, the cache must learn what
// transactions write.
type binder struct {
	ability.Set
	s *Store
}

func (b binder) Bind(tx any) (stet.Store, error) {
	in, err := b.Set.Bind(tx)
	if err != nil {
		return nil, err
	}
	return &bound{in, b.s}, nil
}

// bound is the origin within a transaction.
//
// The cache must not learn what may still be rolled back. But the note of a run that the
// transaction ends would outlive the commit, which does not pass through this store, and duplicates
// would put the note back until then. So each write replaces the note by a mark. A mark is never an
// answer, and no copy of an older write replaces it: as long as it is there, the origin is asked,
// until what was committed, or what is written after a rollback, takes its place (B07).
type bound struct {
	stet.Store
	s *Store
}

// Unwrap lets [stet.As] find what else the origin can do in the transaction.
func (b *bound) Unwrap() stet.Store { return b.Store }

func (b *bound) Replace(ctx context.Context, prev stet.Version, h stet.Head, body *stet.Body) (stet.Head, error) {
	got, err := b.Store.Replace(ctx, prev, h, body)
	if v := b.s.visit(); err == nil {
		v.mark(ctx, got)
	}
	return got, err
}

func (b *bound) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	err := b.Store.Delete(ctx, id, prev)
	if v := b.s.visit(); err == nil {
		v.drop(ctx, id)
	}
	return err
}

// mark replaces h's copy by a mark: it has the instant of h, a version that is never written, and a
// state that is never shown.
func (v *visit) mark(ctx context.Context, h stet.Head) {
	m := stet.Head{ID: h.ID, Version: randomVersion(), State: stet.Unknown, UpdatedAt: h.UpdatedAt, AsOf: h.AsOf}
	seen := v.s.see(h.ID)
	seen.firm = true
	if !v.store(ctx, stet.Record{Head: m}, v.s.cfg.TTL, seen) {
		v.drop(ctx, h.ID)
	}
}
