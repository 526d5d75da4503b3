package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tag"
	"github.com/stet-dev/stet/store/sqlstore"
)

// plain is what the group commit is compared with: the same rows by the same statements, one
// transaction for each write, on one connection that is kept.
type plain struct {
	db             *sql.DB
	insert, update *sql.Stmt
}

func openPlain(b *testing.B, path string) *plain {
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(path))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if err := sqlstore.Migrate(b.Context(), db, sqlstore.SQLite); err != nil {
		b.Fatal(err)
	}
	p := &plain{db: db}
	for _, s := range []struct {
		stmt **sql.Stmt
		text string
	}{{&p.insert, sqltext.SQLiteInsert}, {&p.update, sqltext.SQLiteUpdateBody}} {
		if *s.stmt, err = db.Prepare(s.text); err != nil {
			b.Fatal(err)
		}
	}
	return p
}

func (p *plain) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	s := sqltext.Born(&r.Head, time.Now().UnixMicro())
	args, err := arguments(&r.Head, &r.Body, &s)
	if err != nil {
		return r, err
	}
	s.Apply(&r.Head)
	return r, p.transaction(ctx, p.insert, text.ID(args, r.ID))
}

func (p *plain) Replace(ctx context.Context, prev stet.Version, h stet.Head, body *stet.Body) (stet.Head, error) {
	s := sqltext.Changed(&h, time.Now().UnixMicro())
	args, err := arguments(&h, body, &s)
	if err != nil {
		return h, err
	}
	return h, p.transaction(ctx, p.update, append(text.ID(args, h.ID), int64(prev)))
}

// arguments are those of a head, of a body and of the instants.
func arguments(h *stet.Head, b *stet.Body, s *sqltext.Stamp) ([]any, error) {
	args, err := text.Head(nil, h)
	if err != nil {
		return nil, err
	}
	packed := args[0].([]byte)
	s.Seal(packed, sqltext.Unsealed(packed))
	if b != nil {
		args = sqltext.Body(args, h.ID, b)
	}
	return s.Args(args), nil
}

func (p *plain) transaction(ctx context.Context, stmt *sql.Stmt, args []any) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	res, err := tx.StmtContext(ctx, stmt).ExecContext(ctx, args...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("%d rows: %w", n, err)
	}
	return tx.Commit()
}

var text sqltext.Encoder = sqltext.SQLiteText

// writer is the part of a store that the benchmark compares.
type writer interface {
	Create(context.Context, stet.Record) (stet.Record, error)
	Replace(context.Context, stet.Version, stet.Head, *stet.Body) (stet.Head, error)
}

// pair reserves a new key and completes it: two durable writes of an ordinary request.
func pair(ctx context.Context, w writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	got, err := w.Create(ctx, sample())
	if err != nil {
		return err
	}
	h := got.Head
	h.State, h.Version, h.DueIn, h.Status = stet.Completed, draw(), 24*time.Hour, 201
	_, err = w.Replace(ctx, got.Version, h, &stet.Body{Response: &stet.Response{Status: 201, Body: make([]byte, 200),
		Header: []stet.Field{{Name: "Content-Type", Value: "application/json"}, {Name: "Location", Value: "/v1/payments/pay_1"}}}})
	return err
}

func draw() stet.Version { return stet.Version(rand.Uint64()>>1 | 1) }

func sample() stet.Record {
	return stet.Record{Head: stet.Head{
		ID:  stet.ID{Scope: "tenant-1", Key: stet.Key(fmt.Sprintf("%016x-%016x", rand.Uint64(), rand.Uint64()))},
		Tag: tag.Text(rand.Uint64()), Version: draw(), State: stet.Running, Attempt: 1, Holder: "host:1234", DueIn: time.Minute,
		Fingerprint: stet.Fingerprint{Recipe: "1 auto"}, Route: "POST /v1/payments", Method: "POST", Path: "/v1/payments",
		Rules: stet.Rules{Retain: 24 * time.Hour},
	}}
}

// spin lets callers write pairs for a while, and returns how many a second they made.
func spin(b *testing.B, w writer, callers int, d time.Duration) float64 {
	var wg sync.WaitGroup
	counts := make([]int, callers)
	began := time.Now()
	for i := range callers {
		wg.Go(func() {
			for time.Since(began) < d {
				if err := pair(b.Context(), w); err != nil {
					b.Error(err)
					return
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / time.Since(began).Seconds()
}

// BenchmarkGroupCommit compares the store with one transaction per write, in short turns within one
// run, so that a disk that is slow for a while is slow for both. What counts is the median of the
// ratios of neighbouring turns.
func BenchmarkGroupCommit(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			dir := b.TempDir()
			one := openPlain(b, filepath.Join(dir, "plain.db"))
			store := open(b, filepath.Join(dir, "grouped.db"))
			const turn = 50 * time.Millisecond
			var plains, grouped, ratios []float64
			for b.Loop() {
				var p, g float64
				if len(ratios)%2 == 0 {
					p, g = spin(b, one, callers, turn), spin(b, store, callers, turn)
				} else {
					g, p = spin(b, store, callers, turn), spin(b, one, callers, turn)
				}
				plains, grouped, ratios = append(plains, p), append(grouped, g), append(ratios, g/p)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(plains), "plain-pairs/s")
			b.ReportMetric(median(grouped), "pairs/s")
			b.ReportMetric(median(ratios), "ratio")
		})
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkGet reads a completed record.
func BenchmarkGet(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "stet.db"))
	r := sample()
	if _, err := s.Create(b.Context(), r); err != nil {
		b.Fatal(err)
	}
	h := r.Head
	h.State, h.Version = stet.Completed, draw()
	if _, err := s.Replace(b.Context(), r.Version, h, &stet.Body{Response: &stet.Response{Status: 201, Body: make([]byte, 200)}}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(ctx, r.ID); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplay asks for a key that is done, as a retry does.
func BenchmarkReplay(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "stet.db"))
	r := sample()
	r.State = stet.Completed
	if _, err := s.Create(b.Context(), r); err != nil {
		b.Fatal(err)
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Create(b.Context(), r); !errors.Is(err, stet.ErrExists) {
				b.Fatal(err)
			}
		}
	})
}
