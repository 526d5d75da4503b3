package tierstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/tierstore"
)

// What a reader left, because it had no room for it, is no copy for those who have.
func TestWhatWasLeftIsNoCopy(t *testing.T) { // C11
	for name, cache := range map[string]tierstore.Cache{"memory": tierstore.NewMemory(0), "shared": tierstore.Shared(memstore.New(memstore.Config{}))} {
		origin := memstore.New(memstore.Config{})
		s, err := tierstore.New(cache, origin, tierstore.Config{Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for op, look := range map[string]func(ctx context.Context, r stet.Record) (stet.Record, error){
			"Get": func(ctx context.Context, r stet.Record) (stet.Record, error) { return s.Get(ctx, r.ID) },
			"Create": func(ctx context.Context, r stet.Record) (stet.Record, error) {
				got, err := s.Create(ctx, r)
				if errors.Is(err, stet.ErrExists) {
					err = nil
				}
				return got, err
			},
		} {
			const size = 2 * stet.SmallBody
			r := stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: stet.Key(op)}, Version: 1, State: stet.Completed, Status: 201, Attempt: 1, DueIn: time.Hour},
				Body: stet.Body{Response: &stet.Response{Status: 201, Body: make([]byte, size)}}}
			if _, err := origin.Create(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got, err := look(stet.WithMaxBody(t.Context(), stet.SmallBody), r); err != nil || got.Left < size || got.Response != nil {
					t.Errorf("%s, %s without room: %d bytes are left, %v", name, op, got.Left, err)
				}
				if got, err := look(t.Context(), r); err != nil || got.Left != 0 || got.Response == nil || len(got.Response.Body) != size {
					t.Errorf("%s, %s with room: %d bytes are left, %v", name, op, got.Left, err)
				}
			}
		}
	}
}
