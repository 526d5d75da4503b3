package pebblestore_test

import (
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/pebblestore"
	"github.com/stet-dev/stet/store/storetest"
)

var backend = storetest.Backend{Durable: true, Tamper: pebblestore.Tamper, Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
	s, err := pebblestore.Open(dir, pebblestore.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return s
}}

func TestLaws(t *testing.T) { storetest.Run(t, backend) }

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, backend) }
