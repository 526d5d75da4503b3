package filestore_test

import (
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/filestore"
	"github.com/stet-dev/stet/store/storetest"
)

var backend = storetest.Backend{Durable: true, Shared: true, Tamper: filestore.Tamper, Backup: filestore.Backup, Empty: filestore.Empty, Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
	s, err := filestore.Open(dir, filestore.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return s
}}

func TestLaws(t *testing.T) { storetest.Run(t, backend) }

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, backend) }
