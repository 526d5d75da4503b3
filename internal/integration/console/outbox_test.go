package console

import (
	"context"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A message that the other side declined is delivered again when a person says so, with a reason.
func TestDeadMessage(t *testing.T) {
	tier.Campaign(t, "five journeys through the console are in the gate")
	t.Parallel()
	w := newWorld(t, setup{})
	result := outbox.Decline("the account is closed")
	w.messages(&result, 1)
	b := w.open(operator)
	b.visit("/dead")
	b.sees("declined: the account is closed")
	b.click("1")
	b.sees("Deliver it again")
	b.check("a message")
	b.fill("reason", "the account is open again")
	b.click("Deliver it again")
	b.sees("It is delivered again.")
	result = outbox.Delivered()
	w.deliver(&result, 1)
	b.visit("/outbox/1")
	b.sees("done")
	b.visit("/audit")
	b.sees("the account is open again")
}

// messages adds a message, and tries to deliver it so often.
func (w *world) messages(result *outbox.Result, times int) {
	w.Helper()
	db, _ := w.engine()
	tx, err := db.BeginTx(w.Context(), nil)
	if err != nil {
		w.Fatal(err)
	}
	if err := outbox.New(sqlstore.SQLite).Add(w.Context(), tx, outbox.Message{Topic: "payout", Name: "p_1", OrderKey: "account-7", Payload: []byte(`{"amount":1}`)}); err != nil {
		w.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		w.Fatal(err)
	}
	w.deliver(result, times)
}

// deliver runs a worker until so many attempts were made.
func (w *world) deliver(result *outbox.Result, times int) {
	w.Helper()
	db, _ := w.engine()
	ctx, end := context.WithTimeout(w.Context(), patience)
	defer end()
	done := 0
	worker := outbox.Worker{DB: db, Dialect: sqlstore.SQLite, Poll: 10 * time.Millisecond, Concurrency: 1,
		Handler: func(context.Context, *outbox.Delivery) outbox.Result { return *result },
		Observe: func(e outbox.Event) {
			if e.Result != "error" {
				if done++; done == times {
					end()
				}
			}
		}}
	if err := worker.Run(ctx); err != nil && ctx.Err() == nil {
		w.Fatal(err)
	}
	if done < times {
		w.Fatalf("%d attempts of %d", done, times)
	}
}
