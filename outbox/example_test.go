package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"expvar"
	"net/http"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/sqlstore"
)

// The order and the promise of a receipt are committed together.
func ExampleBox_Add() {
	box := outbox.New(sqlstore.Postgres)
	place := func(ctx context.Context, tx *sql.Tx, order []byte) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (body) VALUES ($1)", order); err != nil {
			return err
		}
		err := box.Add(ctx, tx, outbox.Message{Topic: "receipt", Record: outbox.RecordOf(stet.ClaimFrom(ctx)), Payload: order, KeyHonoured: true})
		if errors.Is(err, stet.ErrExists) { // an earlier execution of this request has promised it
			return nil
		}
		return err
	}
	_ = place
}

// A worker in a service: what it sends downstream, what the answers mean, and how it is counted,
// here with expvar under the names that Stet's other parts have in Prometheus.
func ExampleWorker() {
	deliveries, waiting, dead := expvar.NewMap("idem_outbox_deliveries_total"), expvar.NewInt("idem_outbox_pending"), expvar.NewMap("idem_dead_letters")
	for _, result := range []string{"done", "retry", "dead", "unknown", "lost", "error"} {
		deliveries.Add(result, 0) // from zero, so that the first of a kind is a rise
	}
	send := func(ctx context.Context, d *outbox.Delivery) outbox.Result {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://mail.example/receipts", nil)
		if err != nil {
			return outbox.Decline(err.Error())
		}
		req.Header.Set("Idempotency-Key", d.DownstreamKey)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return outbox.Maybe(err) // it may have been sent
		}
		defer func() { _ = resp.Body.Close() }()
		switch {
		case resp.StatusCode < 300:
			if err := d.Downstream(ctx, resp.Header.Get("Location")); err != nil {
				return outbox.Maybe(err)
			}
			return outbox.Delivered()
		case resp.StatusCode == http.StatusTooManyRequests:
			return outbox.Retry(time.Minute, errors.New(resp.Status))
		case resp.StatusCode < 500:
			return outbox.Decline(resp.Status)
		}
		return outbox.Maybe(errors.New(resp.Status))
	}
	run := func(ctx context.Context, db *sql.DB) error {
		w := outbox.Worker{DB: db, Dialect: sqlstore.Postgres, Handler: send,
			Observe: func(e outbox.Event) { deliveries.Add(e.Result, 1) }}
		return w.Run(ctx)
	}
	gauges := func(ctx context.Context, db *sql.DB) error { // every ten seconds or so
		counts, err := (&outbox.Desk{Box: outbox.New(sqlstore.Postgres), DB: db}).Counts(ctx)
		if err != nil {
			return err
		}
		waiting.Set(counts[outbox.Pending] + counts[outbox.Running])
		letters := new(expvar.Int)
		letters.Set(counts[outbox.Dead] + counts[outbox.Unknown])
		dead.Set("outbox", letters)
		return nil
	}
	_, _ = run, gauges
}
