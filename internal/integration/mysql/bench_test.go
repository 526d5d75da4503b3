package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tag"
	"github.com/stet-dev/stet/store/storetest"
)

func BenchmarkLaws(b *testing.B) {
	b.Setenv(serverEnv, testserver.MariaDB(b).Addr)
	storetest.Benchmark(b, backend)
}

// plain is what the group commit is compared with: the same rows, by a prepared statement and a
// transaction for each write, over a pool that has a connection for every caller.
type plain struct {
	db             *sql.DB
	insert, update *sql.Stmt
	columns        []string
}

func openPlain(b *testing.B, callers int) *plain {
	p := &plain{db: migrated(b, fresh(b, testserver.MariaDB(b).Addr))}
	p.db.SetMaxIdleConns(callers)
	p.columns = strings.Fields("scope key id version schema tag state status flags route cause downstream_key downstream_id " +
		"due_at updated_at created_at completed_at head body")
	names := "`" + strings.Join(p.columns, "`, `") + "`"
	places := strings.Repeat(", ?", len(p.columns))[2:]
	sets := "`" + strings.Join(p.columns[3:], "` = ?, `") + "` = ?"
	var err error
	if p.insert, err = p.db.Prepare("INSERT INTO stet_records (" + names + ") VALUES (" + places + ")"); err != nil {
		b.Fatal(err)
	}
	if p.update, err = p.db.Prepare("UPDATE stet_records SET " + sets + " WHERE `scope` = ? AND `key` = ? AND `version` = ?"); err != nil {
		b.Fatal(err)
	}
	return p
}

func (p *plain) values(h *stet.Head, body *stet.Body) []any {
	now := time.Now().UnixMicro()
	args := []any{string(h.Scope), string(h.Key), []byte(fmt.Sprintf("%016x", now)), int64(h.Version), 1, sqltext.Tag(h.Tag), h.State.String(), h.Status, 0,
		h.Route, "", "", "", now + h.DueIn.Microseconds(), now, now, nil, make([]byte, 80), []byte{}}
	if body.Response != nil {
		args[len(args)-1] = append([]byte("headers headers headers headers headers headers headers headers"), body.Response.Body...)
	}
	return args
}

func (p *plain) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	_, err := p.insert.ExecContext(ctx, p.values(&r.Head, &r.Body)...)
	return r, err
}

func (p *plain) Replace(ctx context.Context, prev stet.Version, h stet.Head, body *stet.Body) (stet.Head, error) {
	res, err := p.update.ExecContext(ctx, append(p.values(&h, body)[3:], string(h.Scope), string(h.Key), int64(prev))...)
	if err != nil {
		return h, err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return h, fmt.Errorf("%d rows: %w", n, err)
	}
	return h, nil
}

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

// spin lets callers call for a while, and returns how many calls a second they made.
func spin(b *testing.B, call func(context.Context) error, callers int, d time.Duration) float64 {
	var wg sync.WaitGroup
	counts := make([]int, callers)
	began := time.Now()
	for i := range callers {
		wg.Go(func() {
			for time.Since(began) < d {
				if err := call(b.Context()); err != nil {
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

// compare lets two take short turns within one run, so that a disk that is slow for a while is slow
// for both. What counts is the median of the ratios of neighbouring turns.
func compare(b *testing.B, callers int, plain, ours func(context.Context) error) {
	const turn = 150 * time.Millisecond
	var plains, all, ratios []float64
	for b.Loop() {
		var p, g float64
		if len(ratios)%2 == 0 {
			p, g = spin(b, plain, callers, turn), spin(b, ours, callers, turn)
		} else {
			g, p = spin(b, ours, callers, turn), spin(b, plain, callers, turn)
		}
		plains, all, ratios = append(plains, p), append(all, g), append(ratios, g/p)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(plains), "plain/s")
	b.ReportMetric(median(all), "stet/s")
	b.ReportMetric(median(ratios), "ratio")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkGroupCommit compares the store with one transaction per write: a new key and its
// completion.
func BenchmarkGroupCommit(b *testing.B) {
	for _, callers := range []int{1, 4, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			one := openPlain(b, min(callers, 100))
			store, _ := open(b)
			one.db.SetMaxOpenConns(100)
			compare(b, callers, func(ctx context.Context) error { return pair(ctx, one) }, func(ctx context.Context) error { return pair(ctx, store) })
		})
	}
}

// BenchmarkReplay compares a retry that finds its answer with a bare SELECT of the same.
func BenchmarkReplay(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			store, db := open(b)
			db.SetMaxIdleConns(callers)
			r := sample()
			r.State, r.Response = stet.Completed, &stet.Response{Status: 201, Body: make([]byte, 200)}
			if _, err := store.Create(b.Context(), r); err != nil {
				b.Fatal(err)
			}
			bare, err := db.Prepare("SELECT version, state, status, head, body, due_at FROM stet_records WHERE `scope` = ? AND `key` = ?")
			if err != nil {
				b.Fatal(err)
			}
			compare(b, callers, func(ctx context.Context) error {
				var values [6]sql.RawBytes
				rows, err := bare.QueryContext(ctx, string(r.Scope), string(r.Key))
				if err != nil {
					return err
				}
				defer rows.Close()
				rows.Next()
				return errors.Join(rows.Scan(&values[0], &values[1], &values[2], &values[3], &values[4], &values[5]), rows.Err())
			}, func(ctx context.Context) error {
				again := r
				again.Version = draw()
				if _, err := store.Create(ctx, again); !errors.Is(err, stet.ErrExists) {
					return fmt.Errorf("create: %w", err)
				}
				return nil
			})
		})
	}
}
