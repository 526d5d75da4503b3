package outbox

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A transaction of a business row and a message, on Postgres.
func BenchmarkAdd(b *testing.B) {
	db := fresh(b, sqlstore.Postgres)
	if _, err := db.ExecContext(b.Context(), "CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL)"); err != nil {
		b.Fatal(err)
	}
	m := outbox.Message{Topic: "charge", Payload: make([]byte, 200)}
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			tx, err := db.BeginTx(context.Background(), nil)
			if err != nil {
				b.Error(err)
				return
			}
			_, err = tx.Exec("INSERT INTO payments (amount) VALUES ($1)", 100)
			if err == nil {
				err = db.box.Add(context.Background(), tx, m)
			}
			if err == nil {
				err = tx.Commit()
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
}

// Deliveries by one worker whose handler does nothing, on Postgres.
func BenchmarkDeliver(b *testing.B) {
	db := fresh(b, sqlstore.Postgres)
	if _, err := db.ExecContext(b.Context(), `INSERT INTO stet_outbox (version, behind, attempt, created_at, updated_at, due_at, state, scope, key, life, topic, name,
		order_key, downstream_key, downstream_id, payload, meta, errors)
		SELECT 1, 0, 0, 0, 0, i, 'pending', '', '', 0, 't', '', '', 'ob_' || i, '', '', '{}', '' FROM generate_series(1, $1::bigint) i`, b.N); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var mu sync.Mutex
	n := 0
	w := outbox.Worker{DB: db.DB, Dialect: db.dialect, Concurrency: 32, Lease: time.Minute,
		Handler: func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Delivered() },
		Observe: func(outbox.Event) {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == b.N {
				cancel()
			}
		}}
	b.ResetTimer()
	if err := w.Run(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}
