package outbox

import (
	"context"
	"database/sql"
	"math"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/store/sqlstore"
)

// Numbers that cannot be meant are refused where they enter.
func TestNumbersHaveBounds(t *testing.T) { // K12
	valid := func() Worker {
		return Worker{DB: new(sql.DB), Dialect: sqlstore.SQLite, Handler: func(context.Context, *Delivery) Result { return Delivered() }}
	}
	bounds.Refuses(t, workerBounds, valid, func(w Worker) error { _, err := w.complete(); return err })
	bounds.Refuses(t, messageBounds, func() Message { return Message{Topic: "t"} }, func(m Message) error { _, err := m.Complete(); return err })
	bounds.Refuses(t, queryBounds, func() Query { return Query{} }, func(q Query) (err error) {
		defer func() { _ = recover() }() // there is no database
		_, err = new(Desk).List(t.Context(), q)
		return err
	})
}

// The longest settings overflow nowhere: a pause is a pause, and an attempt is not over at once.
func TestTheLongestSettingsHaveRoom(t *testing.T) { // K12
	w := Worker{Backoff: bounds.Long, MaxBackoff: bounds.Long}
	for n := range 100 {
		if d := w.backoff(n); d < 0 || d > bounds.Long {
			t.Fatalf("after %d attempts the pause is %s", n, d)
		}
	}
	for _, after := range []time.Duration{math.MinInt64, math.MaxInt64} {
		if _, d, _ := Retry(after, nil).Outcome(); d < 0 || d > maxDelay {
			t.Errorf("Retry(%d) is after %s", after, d)
		}
	}
}
