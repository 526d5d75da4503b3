package pebblestore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stet-dev/stet"
)

// BenchmarkPairs is a new key reserved and completed, each write on the disk before it is answered,
// by so many callers at once.
func BenchmarkPairs(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s, err := Open(b.TempDir(), Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			body := &stet.Body{Response: &stet.Response{Status: 201, Header: []stet.Field{{Name: "Content-Type", Value: "application/json"}}, Body: make([]byte, 200)}}
			var n atomic.Int64
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for n.Add(1) <= int64(b.N) {
						r := running(fmt.Sprintf("8e03978e-40d5-43e8-bc93-%012d", n.Add(0)))
						r.Key += stet.Key(fmt.Sprint(r.Version))
						r.Tag = fmt.Sprintf("k_%016x", uint64(r.Version))
						made, err := s.Create(context.Background(), r)
						if err == nil {
							_, err = s.Replace(context.Background(), made.Version, completed(made.Head), body)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
		})
	}
}
