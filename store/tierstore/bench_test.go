package tierstore_test

import (
	"errors"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/storetest"
	"github.com/stet-dev/stet/store/tierstore"
)

// BenchmarkReplay is what a replay costs that a cache in memory answers, beside one of memstore.
func BenchmarkReplay(b *testing.B) {
	for name, over := range map[string]func() stet.Store{
		"memstore": func() stet.Store { return memory(nil) },
		"cache":    func() stet.Store { return tiered(b, tierstore.NewMemory(0), memory(nil), tierstore.Config{}) },
	} {
		b.Run(name, func(b *testing.B) {
			x := &rig{t: b, clock: &storetest.Clock{}, origin: &counted{Store: over()}}
			r := running("k")
			made, err := x.origin.Create(b.Context(), r)
			if err != nil {
				b.Fatal(err)
			}
			h := made.Head
			h.Version, h.State, h.DueIn = draw(), stet.Completed, 1e15
			if _, err := x.origin.Replace(b.Context(), made.Version, h, &stet.Body{Response: &stet.Response{Status: 201, Body: make([]byte, 200)}}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.origin.Create(b.Context(), r); !errors.Is(err, stet.ErrExists) {
					b.Fatal(err)
				}
			}
		})
	}
}
