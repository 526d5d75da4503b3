package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tag"
)

// Benchmark measures what a request costs in a store, for one caller and for 64 concurrent ones.
// "new" is a Create and the Replace that completes the record, "replay" is a Create that finds a
// completed record, and "get" is a Get of it.
func Benchmark(b *testing.B, backend Backend) {
	for _, callers := range []int{1, 64} {
		b.Run("new/callers="+strconv.Itoa(callers), func(b *testing.B) {
			s := backend.Open(b, b.TempDir(), nil)
			defer closeStore(b, s)
			var n atomic.Int64
			parallel(b, callers, func() error { return complete(b, s, "bench-"+strconv.FormatInt(n.Add(1), 10)) })
		})
		b.Run("replay/callers="+strconv.Itoa(callers), func(b *testing.B) {
			s := backend.Open(b, b.TempDir(), nil)
			defer closeStore(b, s)
			if err := complete(b, s, "k"); err != nil {
				b.Fatal(err)
			}
			r := running("k")
			parallel(b, callers, func() error {
				if _, err := s.Create(b.Context(), r); !errors.Is(err, stet.ErrExists) {
					return fmt.Errorf("storetest: Create: %w", err)
				}
				return nil
			})
		})
		b.Run("get/callers="+strconv.Itoa(callers), func(b *testing.B) {
			s := backend.Open(b, b.TempDir(), nil)
			defer closeStore(b, s)
			if err := complete(b, s, "k"); err != nil {
				b.Fatal(err)
			}
			id := running("k").ID
			parallel(b, callers, func() error { _, err := s.Get(b.Context(), id); return err })
		})
	}
}

func complete(b *testing.B, s stet.Store, key string) error {
	r := running(key)
	r.Tag = tag.Text(rand.Uint64())
	made, err := s.Create(b.Context(), r)
	if err != nil {
		return err
	}
	h := made.Head
	h.Version, h.State, h.Status, h.Size, h.DueIn = draw(), stet.Completed, 201, 200, time.Hour
	_, err = s.Replace(b.Context(), made.Version, h, &stet.Body{Response: &stet.Response{Status: 201,
		Header: []stet.Field{{Name: "Content-Type", Value: "application/json"}}, Body: make([]byte, 200)}})
	return err
}

func parallel(b *testing.B, callers int, call func() error) {
	b.ReportAllocs()
	if callers == 1 {
		for b.Loop() {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	b.SetParallelism(callers) // times GOMAXPROCS: at least so many
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := call(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
