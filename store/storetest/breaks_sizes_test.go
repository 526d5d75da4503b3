package storetest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/stet-dev/stet"
)

// sizeBreaks are breaks of a store that does not take everything.
var sizeBreaks = []storeBreak{
	{"it takes less than it says", "sizes", bounded(func(s *broken, r *stet.Record) error { return stet.ErrRefused })},
	{"what is too large is told as a failure", "too large", bounded(func(*broken, *stet.Record) error { return errors.New("the connection broke") })},
	{"what is too large is stored nevertheless", "too large", bounded(func(s *broken, r *stet.Record) error {
		_, _ = s.Store.Create(context.Background(), *r)
		return stet.ErrRefused
	})},
	{"what is too large breaks the connection that others use", "too large", func(s *broken) {
		var gone atomic.Bool
		bounded(func(*broken, *stet.Record) error { gone.Store(true); return stet.ErrRefused })(s)
		create := s.create
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			got, err := create(ctx, r)
			if err == nil && gone.Load() && r.Key != "made" {
				err = errors.New("the connection broke")
			}
			return got, err
		}
	}},
	{"what is too large replaces by half", "too large", func(s *broken) {
		bounded(func(*broken, *stet.Record) error { return stet.ErrRefused })(s)
		s.replace = func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
			got, err := s.Store.Replace(ctx, prev, h, nil)
			if b != nil && len(b.Request) > 1000 {
				return stet.Head{}, stet.ErrRefused
			}
			return got, err
		}
	}},
}

// bounded makes a store say that it takes keys of 1,000 bytes and bodies of as many, and refuse
// more than half as how says.
func bounded(how func(s *broken, r *stet.Record) error) func(s *broken) {
	return func(s *broken) {
		s.most = stet.Sizes{Key: 1000, Body: 1000}
		s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
			if len(r.Key) > 500 || len(r.Request) > 1000 {
				return stet.Record{}, how(s, &r)
			}
			return s.Store.Create(ctx, r)
		}
	}
}
