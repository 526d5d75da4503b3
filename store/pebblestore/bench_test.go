package pebblestore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// pairs reserves and completes n new keys, each write on the disk before it is answered, by so many
// callers at once. It returns the pairs per second.
func pairs(b *testing.B, s *Store, callers int, n int64) float64 {
	b.Helper()
	body := &stet.Body{Response: &stet.Response{Status: 201, Header: []stet.Field{{Name: "Content-Type", Value: "application/json"}}, Body: make([]byte, 200)}}
	var made atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for made.Add(1) <= n {
				id := rand.Uint64()
				r := running(fmt.Sprintf("8e03978e-40d5-43e8-%016x", id))
				r.Tag = fmt.Sprintf("k_%016x", id)
				got, err := s.Create(context.Background(), r)
				if err == nil {
					_, err = s.Replace(context.Background(), got.Version, completed(got.Head), body)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(n) / time.Since(began).Seconds()
}

func openIn(b *testing.B, dir string) *Store {
	b.Helper()
	s, err := Open(dir, Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkPairs is how many new keys a second so many callers can store.
func BenchmarkPairs(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			b.ReportMetric(pairs(b, openIn(b, b.TempDir()), callers, int64(b.N)), "pairs/s")
		})
	}
}

// BenchmarkGrown compares a store of five million keys, once it has settled, with an empty one, in
// turns. It takes minutes and some 3 GB of disk: STET_SOAK=1.
func BenchmarkGrown(b *testing.B) {
	if os.Getenv("STET_SOAK") == "" {
		b.Skip("five million keys take minutes: STET_SOAK=1")
	}
	const keys, turns, turn = 5_000_000, 7, 30_000
	dir := b.TempDir()
	s, err := Open(dir, Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(pairs(b, s, 256, keys), "filling-pairs/s")
	look := time.NewTicker(time.Second)
	for m := s.db.Metrics(); m.Compact.NumInProgress > 0 || m.Compact.EstimatedDebt > 64<<20; m = s.db.Metrics() {
		<-look.C // until what is written in the background has been
	}
	look.Stop()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	grown := openIn(b, dir)
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-to-open")
	empty := openIn(b, b.TempDir())
	var ratios, large []float64
	for range turns {
		of := pairs(b, empty, 64, turn)
		large = append(large, pairs(b, grown, 64, turn))
		ratios = append(ratios, large[len(large)-1]/of)
	}
	slices.Sort(ratios)
	slices.Sort(large)
	b.ReportMetric(large[turns/2], "pairs/s")
	b.ReportMetric(ratios[turns/2], "of-empty")
	began = time.Now()
	if _, _, err := grown.List(b.Context(), stet.Query{Limit: 100}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/page")
	b.ReportMetric(0, "ns/op")
}
