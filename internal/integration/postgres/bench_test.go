package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/sqlstore"
	"github.com/stet-dev/stet/store/storetest"
)

// plain is what the store is compared with: the same rows, an INSERT and an UPDATE of one row over
// a pool, each a transaction.
type plain struct{ pool *pgxpool.Pool }

var (
	plainHead = strings.Fields(`head version tag state status flags route cause downstream_key downstream_id body`)
	now       = sqltext.PostgresNow

	plainInsert = func() string {
		columns := slices.Concat([]string{"scope", "key"}, plainHead)
		var places []string
		for i := range columns {
			places = append(places, fmt.Sprintf("$%d", i+1))
		}
		return fmt.Sprintf(`INSERT INTO stet_records (%s, schema, due_at, updated_at, created_at) VALUES (%s, %d, %s + $%d::bigint, %s, %s)
			ON CONFLICT DO NOTHING RETURNING created_at`, strings.Join(columns, ", "), strings.Join(places, ", "), sqltext.Schema, now, len(columns)+1, now, now)
	}()
	plainUpdate = func() string {
		var sets []string
		for i, c := range plainHead {
			sets = append(sets, fmt.Sprintf("%s = $%d", c, i+3))
		}
		n := len(sets) + 3
		return fmt.Sprintf(`UPDATE stet_records SET %s, due_at = %s + $%d::bigint, updated_at = %s, completed_at = %s
			WHERE scope = $1 AND key = $2 AND version = $%d RETURNING updated_at`, strings.Join(sets, ", "), now, n+1, now, now, n)
	}()
)

func (p *plain) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	args, err := sqltext.PostgresCreateArgs(&r.Head, &r.Body)
	if err != nil {
		return r, err
	}
	var at int64
	err = p.pool.QueryRow(ctx, plainInsert, args...).Scan(&at)
	r.CreatedAt = time.UnixMicro(at)
	return r, err
}

func (p *plain) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	args, err := sqltext.PostgresReplaceArgs(prev, &h, b)
	if err != nil {
		return h, err
	}
	var at int64
	return h, p.pool.QueryRow(ctx, plainUpdate, args[:len(args)-2]...).Scan(&at)
}

// writer is the part of a store that the benchmark compares.
type writer interface {
	Create(context.Context, stet.Record) (stet.Record, error)
	Replace(context.Context, stet.Version, stet.Head, *stet.Body) (stet.Head, error)
}

// pair reserves a new key and completes it: the two durable writes of an ordinary request.
func pair(ctx context.Context, w writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	got, err := w.Create(ctx, running(fmt.Sprintf("%016x-%016x", rand.Uint64(), rand.Uint64())))
	if err != nil {
		return err
	}
	h, b := completed(got.Head)
	_, err = w.Replace(ctx, got.Version, h, b)
	return err
}

// spin lets callers do something for a while, and returns how often a second they did, and the 99th
// percentile of how long it took.
func spin(b *testing.B, callers int, d time.Duration, do func(context.Context) error) (rate float64, p99 time.Duration) {
	var wg sync.WaitGroup
	times := make([][]time.Duration, callers)
	began := time.Now()
	for i := range callers {
		wg.Go(func() {
			for at := time.Now(); at.Sub(began) < d; {
				if err := do(b.Context()); err != nil {
					b.Error(err)
					return
				}
				next := time.Now()
				times[i] = append(times[i], next.Sub(at))
				at = next
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	all := slices.Concat(times...)
	slices.Sort(all)
	if len(all) == 0 {
		b.Fatal("nothing was done")
	}
	return float64(len(all)) / took.Seconds(), all[len(all)*99/100]
}

// compare lets two do the same in short turns within one run, so that a disk that is slow for a
// while is slow for both. What counts is the median of the ratios of neighbouring turns.
func compare(b *testing.B, callers int, turn time.Duration, turns int, one, other func(context.Context) error) {
	var ratios, rates, others []float64
	var tails, otherTails []time.Duration
	for range turns {
		rate, tail := spin(b, callers, turn, one)
		otherRate, otherTail := spin(b, callers, turn, other)
		ratios, rates, others = append(ratios, rate/otherRate), append(rates, rate), append(others, otherRate)
		tails, otherTails = append(tails, tail), append(otherTails, otherTail)
	}
	b.ReportMetric(middle(ratios), "ratio")
	b.ReportMetric(middle(rates), "store/s")
	b.ReportMetric(middle(others), "plain/s")
	b.ReportMetric(float64(middle(tails).Microseconds())/1000, "store-p99-ms")
	b.ReportMetric(float64(middle(otherTails).Microseconds())/1000, "plain-p99-ms")
	b.ReportMetric(0, "ns/op")
}

func middle[T float64 | time.Duration](v []T) T {
	slices.Sort(v)
	return v[len(v)/2]
}

// durable is a server that waits for its disk, and has been at work: it has files of its log to use
// again. A new one makes each of them while all commits wait, 40 ms for 16 MB, and who writes most
// waits most.
func durable(b *testing.B) string {
	s := testserver.NewPostgres(b, "shared_buffers=512MB", "max_wal_size=4GB", "min_wal_size=2GB")
	conn, err := pgx.Connect(b.Context(), strings.TrimSuffix(dsn(s.Addr, "postgres"), "&pool_max_conns=16"))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	for range 100 {
		if _, err := conn.Exec(b.Context(), "SELECT pg_logical_emit_message(false, '', ''), pg_switch_wal()"); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := conn.Exec(b.Context(), "CHECKPOINT"); err != nil {
		b.Fatal(err)
	}
	return dsn(s.Addr, "postgres")
}

func plainOn(b *testing.B, address string) *plain {
	pool, err := pgxpool.New(b.Context(), with(b, address, "pool_max_conns", "64"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return &plain{pool}
}

const (
	turn  = 700 * time.Millisecond
	turns = 5
)

// BenchmarkNewKeys compares new keys (reserved and completed, both on the disk) with one statement
// per transaction over a pool.
func BenchmarkNewKeys(b *testing.B) {
	address := durable(b)
	s := opened(b, address, pgxstore.Config{})
	p := plainOn(b, address)
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			one, other := func(ctx context.Context) error { return pair(ctx, s) }, func(ctx context.Context) error { return pair(ctx, p) }
			spin(b, callers, turn/3, one)
			spin(b, callers, turn/3, other)
			compare(b, callers, turn, turns, one, other)
		})
	}
}

// BenchmarkIDs is what it costs a new key that it can be found by its id.
func BenchmarkIDs(b *testing.B) {
	s := opened(b, durable(b), pgxstore.Config{})
	with, without := func(ctx context.Context) error { return pair(ctx, s) }, func(ctx context.Context) error { return pair(ctx, nameless{s}) }
	spin(b, 64, 5*turn, with)
	compare(b, 64, turn/4, 5*turns, with, without)
}

// nameless stores records without their ids.
type nameless struct{ writer }

func (n nameless) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	r.Tag = ""
	return n.writer.Create(ctx, r)
}

// BenchmarkNewKeysSQL is the same through database/sql.
func BenchmarkNewKeysSQL(b *testing.B) {
	address := durable(b)
	s := openStandard(b, strings.TrimSuffix(address, "&pool_max_conns=16"))
	b.Cleanup(func() { _ = s.Close() })
	p := plainOn(b, address)
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			compare(b, callers, turn, turns, func(ctx context.Context) error { return pair(ctx, s) }, func(ctx context.Context) error { return pair(ctx, p) })
		})
	}
}

// BenchmarkReplay compares what a retry costs, the Create that finds a completed record, with a
// bare SELECT of its columns.
func BenchmarkReplay(b *testing.B) {
	address := durable(b)
	s := opened(b, address, pgxstore.Config{})
	p := plainOn(b, address)
	r := running("replayed")
	if err := func() error {
		got, err := s.Create(b.Context(), r)
		if err != nil {
			return err
		}
		h, body := completed(got.Head)
		_, err = s.Replace(b.Context(), got.Version, h, body)
		return err
	}(); err != nil {
		b.Fatal(err)
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			one := func(ctx context.Context) error {
				if _, err := s.Create(ctx, r); err != stet.ErrExists {
					return fmt.Errorf("replay: %w", err)
				}
				return nil
			}
			other := func(ctx context.Context) error {
				rows, err := p.pool.Query(ctx, sqltext.PostgresGet, string(r.Scope), string(r.Key), int64(stet.SmallBody))
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					var row sqltext.Row
					var at int64
					if err := rows.Scan(append([]any{&at}, row.DestBody()...)...); err != nil {
						return err
					}
				}
				return rows.Err()
			}
			compare(b, callers, turn/2, turns, one, other)
		})
	}
}

func BenchmarkLaws(b *testing.B) { storetest.Benchmark(b, overPgx("")) }

var _ writer = (*sqlstore.Store)(nil)
