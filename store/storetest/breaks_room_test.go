package storetest

import (
	"context"
	"math"

	"github.com/stet-dev/stet"
)

// roomBreaks are breaks of a store that heeds what room there is for a body.
var roomBreaks = []storeBreak{
	{"Get reads a body for which there is no room", "room", func(s *broken) {
		s.get = func(ctx context.Context, id stet.ID) (stet.Record, error) { return s.Store.Get(roomy(ctx), id) }
	}},
	{"Create reads a body for which there is no room", "room", func(s *broken) {
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) { return s.Store.Create(roomy(ctx), r) }
	}},
	{"a body that is left is not told", "room", leaving(func(b *stet.Body) { b.Left = 0 })},
	{"less of a body is told than is left", "room", leaving(func(b *stet.Body) { b.Left /= 2 })},
	{"much more of a body is told than is left", "room", leaving(func(b *stet.Body) { b.Left *= 4 })},
	{"a body for which there is room is left", "room", func(s *broken) {
		s.get = func(ctx context.Context, id stet.ID) (stet.Record, error) {
			return s.Store.Get(stet.WithMaxBody(ctx, min(stet.MaxBody(ctx), 2*stet.SmallBody)), id)
		}
	}},
	{"a small body is left", "room", func(s *broken) {
		s.get = func(ctx context.Context, id stet.ID) (stet.Record, error) {
			if most := stet.MaxBody(ctx); most <= stet.SmallBody {
				ctx = stet.WithMaxBody(ctx, 0)
			}
			return s.Store.Get(ctx, id)
		}
	}},
}

func roomy(ctx context.Context) context.Context { return stet.WithMaxBody(ctx, math.MaxInt64) }

func leaving(how func(b *stet.Body)) func(s *broken) {
	return func(s *broken) {
		s.get = func(ctx context.Context, id stet.ID) (stet.Record, error) {
			got, err := s.Store.Get(ctx, id)
			if got.Left > 0 {
				how(&got.Body)
			}
			return got, err
		}
	}
}

// roomyStore reads bodies of any size.
type roomyStore struct{ stet.Store }

func (s roomyStore) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	return s.Store.Get(roomy(ctx), id)
}
