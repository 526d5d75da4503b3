package river

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/outbox/riveroutbox"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

const (
	callers  = 32
	parallel = 500 // deliveries at once
	turn     = time.Second
	backlog  = 30_000 // deliveries of a turn
)

var payload = make([]byte, 200)

// bench is a Postgres that waits for the disk, as it comes.
func bench(b *testing.B) (pool *pgxpool.Pool, s *testserver.Server) {
	s = testserver.NewPostgres(b)
	pool = database(b, s, "bench")
	if err := pgxstore.Migrate(b.Context(), pool); err != nil {
		b.Fatal(err)
	}
	if _, err := pool.Exec(b.Context(), "CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL)"); err != nil {
		b.Fatal(err)
	}
	return pool, s
}

// rates are those of one contender, by turns.
type rates map[string][]float64

func (r rates) report(b *testing.B) {
	for name, all := range r {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name+"/s")
	}
}

// Transactions that write a row of business and a message, as Stet and as River keep it; and the
// same with an idempotency key and its stored response, written by the engine. Medians of turns.
func BenchmarkTransactions(b *testing.B) {
	pool, _ := bench(b)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: silent})
	if err != nil {
		b.Fatal(err)
	}
	store, err := pgxstore.Open(b.Context(), pool, pgxstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	engine, err := stet.New(store, stet.Config{})
	if err != nil {
		b.Fatal(err)
	}
	box := outbox.New(sqlstore.Postgres)
	row := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO payments (amount) VALUES ($1)", 100)
		return err
	}
	add := func(ctx context.Context, tx pgx.Tx) error {
		if err := row(ctx, tx); err != nil {
			return err
		}
		return box.Add(ctx, pgxstore.Execer(tx), outbox.Message{Topic: "charge", Payload: payload})
	}
	insert := func(ctx context.Context, tx pgx.Tx) error {
		if err := row(ctx, tx); err != nil {
			return err
		}
		_, err := client.InsertTx(ctx, tx, riveroutbox.Args{DownstreamKey: rand.Text(), Topic: "charge", Payload: payload}, nil)
		return err
	}
	keyed := func(f func(ctx context.Context, tx pgx.Tx) error) func(ctx context.Context, tx pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			d, err := engine.BeginIn(ctx, tx, stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(rand.Text())}, Subject: stet.Subject{Body: payload}})
			if err != nil {
				return err
			}
			if err := f(ctx, tx); err != nil {
				return err
			}
			return d.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 201, Body: payload}})
		}
	}
	contenders := []struct {
		name string
		tx   func(ctx context.Context, tx pgx.Tx) error
	}{{"row", row}, {"stet", add}, {"river", insert}, {"key+stet", keyed(add)}, {"key+river", keyed(insert)}}
	got := rates{}
	for b.Loop() {
		for _, c := range contenders {
			var wg sync.WaitGroup
			var n atomic.Int64
			began := time.Now()
			for range callers {
				wg.Go(func() {
					for time.Since(began) < turn {
						if err := pgx.BeginFunc(context.Background(), pool, func(tx pgx.Tx) error { return c.tx(context.Background(), tx) }); err != nil {
							b.Error(err)
							return
						}
						n.Add(1)
					}
				})
			}
			wg.Wait()
			got[c.name] = append(got[c.name], float64(n.Load())/time.Since(began).Seconds())
		}
	}
	got.report(b)
}

// Deliveries by one worker whose handler does nothing, from a backlog, of Stet and of River. River
// writes what is done in batches, some time after it was. Medians of turns.
func BenchmarkDeliveries(b *testing.B) {
	pool, s := bench(b)
	got := rates{}
	for b.Loop() {
		got["stet"] = append(got["stet"], deliver(b, pool, s.PostgresDSN("bench")))
		got["river"] = append(got["river"], work(b, pool))
	}
	got.report(b)
}

func deliver(b *testing.B, pool *pgxpool.Pool, dsn string) float64 {
	if _, err := pool.Exec(b.Context(), `INSERT INTO stet_outbox (version, behind, attempt, created_at, updated_at, due_at, state, scope, key, life, topic, name,
		order_key, downstream_key, downstream_id, payload, meta, errors)
		SELECT 1, 0, 0, 0, 0, i, 'pending', '', '', 0, 't', '', '', 'ob_' || gen_random_uuid(), '', $2::bytea, '{}', '' FROM generate_series(1, $1::bigint) i`, backlog, payload); err != nil {
		b.Fatal(err)
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(24)
	db.SetMaxIdleConns(24)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var n atomic.Int64
	w := outbox.Worker{DB: db, Dialect: sqlstore.Postgres, Concurrency: parallel,
		Handler: func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Delivered() },
		Observe: func(e outbox.Event) {
			if e.Result != "done" {
				b.Error(e)
			}
			if n.Add(1) == backlog {
				cancel()
			}
		}}
	began := time.Now()
	if err := w.Run(ctx); err != nil {
		b.Fatal(err)
	}
	return backlog / time.Since(began).Seconds()
}

func work(b *testing.B, pool *pgxpool.Pool) float64 {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riveroutbox.Worker[pgx.Tx]{Handler: func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Delivered() }})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: silent, Workers: workers, FetchCooldown: 2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: parallel}}})
	if err != nil {
		b.Fatal(err)
	}
	jobs := make([]river.InsertManyParams, backlog)
	for i := range jobs {
		jobs[i].Args = riveroutbox.Args{DownstreamKey: fmt.Sprint(i), Topic: "t", Payload: payload}
	}
	if _, err := client.InsertManyFast(b.Context(), jobs); err != nil {
		b.Fatal(err)
	}
	events, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 2 * backlog, Kinds: []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed}})
	defer unsubscribe()
	began := time.Now()
	if err := client.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	for range backlog {
		if e := <-events; e.Kind != river.EventKindJobCompleted {
			b.Error(e.Job.Errors)
		}
	}
	took := time.Since(began)
	if err := client.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
	return backlog / took.Seconds()
}
