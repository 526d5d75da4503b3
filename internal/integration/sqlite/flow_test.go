package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/store/sqlstore"
)

// TestResolvedPhaseGoesOnToALocalOne: a phase whose result a person has confirmed is followed by
// one that writes a row, in the transaction that ends the flow's doubt for good. I14, CR-06
func TestResolvedPhaseGoesOnToALocalOne(t *testing.T) {
	type order struct{ Charge string }
	db := database(t, filepath.Join(t.TempDir(), "shop.db"))
	e, err := stet.New(over(t, db, sqlstore.Config{}), stet.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE bookings (charge TEXT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	calls := 0
	errLost, lost := errors.New("the answer was lost"), true
	f, err := flow.New(flow.Config[order]{Name: "order", Engine: e, DB: db, Backoff: time.Millisecond,
		Answer: func(o *order) stet.Response { return stet.Response{Status: 201, Body: []byte(o.Charge)} }},
		flow.Foreign("charge", func(ctx context.Context, call *flow.Call, o *order) error {
			return call.Do(ctx, func(context.Context, string) error {
				calls++
				return flow.Maybe(errLost)
			})
		}),
		flow.Local("book", func(ctx context.Context, tx *sql.Tx, o *order) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO bookings VALUES (?)", o.Charge); err != nil {
				return err
			}
			if lost {
				return flow.Maybe(errLost) // it asked where it must not ask
			}
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	ask := stet.Request{ID: stet.ID{Scope: "shop-1", Key: "order-7"}}
	if _, err := f.Do(t.Context(), ask, order{}); !errors.Is(err, flow.ErrUnknown) {
		t.Fatal(err)
	}
	found := flow.Evidence[order]{Phase: "charge", Made: true, DownstreamID: "ch_7", Learn: func(o *order) error { o.Charge = "ch_7"; return nil }}
	clerk := stet.Note{Who: "clerk", Why: "the provider's console", Evidence: "ch_7"}
	if err := f.Resolve(t.Context(), ask.ID, execution.Of(t.Context(), e, ask.ID), found, clerk); err != nil {
		t.Fatal(err)
	}
	if heads, err := e.Operator().Find(t.Context(), "", "ch_7"); err != nil || len(heads) != 1 || heads[0].Point != "book" {
		t.Errorf("by the provider's id: %+v, %v", heads, err)
	}

	// A local phase is done by its transaction alone: its result cannot be confirmed by hand.
	if _, err := f.Do(t.Context(), ask, order{}); !errors.Is(err, flow.ErrUnknown) {
		t.Fatal(err)
	}
	found.Phase = "book"
	if err := f.Resolve(t.Context(), ask.ID, execution.Of(t.Context(), e, ask.ID), found, clerk); !errors.Is(err, stet.ErrState) {
		t.Errorf("a local phase was vouched for: %v", err)
	}
	lost = false
	step := stet.Step{Point: "book", Progress: []byte(`{"flow":"order","schema":1,"state":{"Charge":"ch_7"}}`)}
	if _, err := e.Operator().Reopen(t.Context(), ask.ID, execution.Of(t.Context(), e, ask.ID), step, clerk); err != nil {
		t.Fatal(err)
	}
	if n, err := (flow.Completer{Engine: e, Flows: []flow.Resumer{f}}).Round(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d completed, %v", n, err)
	}
	got, err := f.Do(t.Context(), ask, order{})
	var rows int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM bookings").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if err != nil || string(got.Body) != "ch_7" || calls != 1 || rows != 1 {
		t.Errorf("%q, %v, %d calls, %d bookings", got.Body, err, calls, rows)
	}
	changes, _, err := e.Operator().History(t.Context(), stet.HistoryQuery{ID: ask.ID})
	if err != nil || len(changes) != 2 || changes[0].Action() != "reopen" {
		t.Errorf("%+v, %v", changes, err)
	}
}
