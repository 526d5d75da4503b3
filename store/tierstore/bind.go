package tierstore

import (
	"context"
	"math/rand/v2"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

// binder is the back's: with notes of what runs, the front has to hear of what is written in transactions.
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

// bound is the back within a transaction. The front is told of nothing that may yet be rolled back; but a note of the run that the
// transaction ends would be read after the commit, when nobody is there to remove it, and duplicates would put it back until then.
// So each write leaves a mark in its place, which is never answered with, and which a copy of anything older does not replace:
// while it is there the back is asked, until what was committed, or written after a rollback, takes its place (B07).
type bound struct {
	stet.Store
	s *Store
}

// Unwrap lets [stet.As] find what else the back can do in the transaction.
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

// mark puts a mark in the place of h's copy: of h's instant, of a version that nobody writes, and of a state that is never shown.
func (v *visit) mark(ctx context.Context, h stet.Head) {
	m := stet.Head{ID: h.ID, Version: stet.Version(rand.Uint64()>>1 | 1), State: stet.Unknown, UpdatedAt: h.UpdatedAt, AsOf: h.AsOf}
	now := v.s.cfg.Clock()
	v.ask(ctx, func(ctx context.Context) error { return v.s.front.put(ctx, stet.Record{Head: m}, v.s.cfg.TTL, now) })
}
