package sqlite

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// BenchmarkIDs is what it costs a new key that it can be found by its id: turns with ids and
// without, in one table of 100,000. It is measured in processor time, which tells more than the
// rate where other work shares the cores.
func BenchmarkIDs(b *testing.B) {
	db := database(b, filepath.Join(b.TempDir(), "stet.db"))
	s := over(b, db, sqlstore.Config{})
	crowd(b, db, create(b, s, "first").ID, 100_000)
	const turn = 200 * time.Millisecond
	micros := func(w writer) float64 {
		before, began := processor(b), time.Now()
		rate := spin(b, w, 64, turn)
		return float64((processor(b) - before).Microseconds()) / (rate * time.Since(began).Seconds())
	}
	var with, without, ratios []float64
	for b.Loop() {
		var w, o float64
		if len(ratios)%2 == 0 {
			w, o = micros(s), micros(nameless{s})
		} else {
			o, w = micros(nameless{s}), micros(s)
		}
		with, without, ratios = append(with, w), append(without, o), append(ratios, w/o)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(with), "µs/pair")
	b.ReportMetric(median(without), "without-µs/pair")
	b.ReportMetric(median(ratios), "ratio")
}

// processor is the time that this process has worked.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// nameless stores records without their ids.
type nameless struct{ writer }

func (n nameless) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	r.Tag = ""
	return n.writer.Create(ctx, r)
}
