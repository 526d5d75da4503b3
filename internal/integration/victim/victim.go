// Package victim ends the transaction of a guarded handler, or of a local phase, by a deadlock, on
// databases that have them.
package victim

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/stethttp"
)

// Database is one with a store.
type Database struct {
	DB    *sql.DB
	Store stet.Store
	// Setup makes the transaction of the handler the victim, if it is not so by itself.
	Setup string
	// Waits counts the transactions that wait for a row.
	Waits string
}

// handlers are what a handler does whose transaction the database ends: each answers the error of
// the statement.
var handlers = map[string]func(w http.ResponseWriter, repeat func() error){
	"repeats the statement": func(w http.ResponseWriter, repeat func() error) {
		_ = repeat()
		w.WriteHeader(http.StatusCreated)
	},
	"ignores the error": func(w http.ResponseWriter, _ func() error) { w.WriteHeader(http.StatusCreated) },
	"repeats and fails": func(w http.ResponseWriter, repeat func() error) {
		_ = repeat()
		w.WriteHeader(http.StatusInternalServerError)
	},
	"states that nothing happened": func(w http.ResponseWriter, _ func() error) {
		w.Header().Set("Stet-Outcome", "not-executed")
		w.WriteHeader(http.StatusInternalServerError)
	},
}

func (d *Database) open(t *testing.T, r stet.Rules) *stet.Engine {
	t.Helper()
	send(t, d.DB, "DROP TABLE IF EXISTS orders, stock") // of the test before
	send(t, d.DB, "CREATE TABLE orders (id INT PRIMARY KEY)")
	send(t, d.DB, "CREATE TABLE stock (id INT PRIMARY KEY, n INT)")
	send(t, d.DB, "INSERT INTO stock VALUES (1, 10), (2, 10)")
	e, err := stet.New(d.Store, stet.Config{Policy: stet.Policy{Rules: r}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// update is what the victim's transaction fails in.
const update = "UPDATE stock SET n = n - 1 WHERE id = 2"

// Test runs each handler, and compares what becomes of its record.
func Test(t *testing.T, d Database, want map[string]stet.State) { // Q01
	e := d.open(t, stet.Rules{})
	i := 0
	for name, handler := range handlers {
		i++
		t.Run(name, func(t *testing.T) {
			guard := stethttp.Middleware(e, stethttp.SingleTenant, stethttp.Config{})
			h := guard(stethttp.Atomic(d.DB, func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
				send(t, tx, fmt.Sprint("INSERT INTO orders VALUES (", i, ")"))
				repeat := func() error {
					_, err := tx.ExecContext(r.Context(), update)
					return err
				}
				if err := d.deadlock(t, tx, i, repeat); err == nil {
					t.Error("the handler's transaction is no victim")
				}
				handler(w, repeat)
			}))
			answer := pay(t, h, i)
			r, err := e.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(key(i))})
			if err != nil || r.State != want[name] {
				t.Errorf("it is %s, %v; want %s", r.State, err, want[name])
			}
			if answer < 400 {
				t.Errorf("it was answered %d", answer)
			}
			d.orders(t, i, 0)
		})
	}
}

func (d *Database) orders(t *testing.T, id, want int) {
	t.Helper()
	var orders int
	if err := d.DB.QueryRowContext(t.Context(), fmt.Sprint("SELECT count(*) FROM orders WHERE id = ", id)).Scan(&orders); err != nil || orders != want {
		t.Errorf("%d orders, %v; want %d", orders, err, want)
	}
}

// TestPhase has a local phase that meets a deadlock in its first try, and then returns the error or
// repeats the statement.
func TestPhase(t *testing.T, d Database, want map[string]stet.State) { // Q01
	e := d.open(t, stet.Rules{OnLapse: stet.LapseResume})
	for i, name := range []string{"returns the error", "repeats the statement"} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			f, err := flow.New(flow.Config[struct{}]{Name: "orders", Engine: e, DB: d.DB, Backoff: time.Millisecond,
				Answer: func(*struct{}) stet.Response { return stet.Response{Status: http.StatusCreated} }},
				flow.Local("order", func(ctx context.Context, tx *sql.Tx, _ *struct{}) error {
					send(t, tx, fmt.Sprint("INSERT INTO orders VALUES (", i, ")"))
					repeat := func() error {
						_, err := tx.ExecContext(ctx, update)
						return err
					}
					if tries++; tries > 1 {
						return repeat()
					}
					failed := d.deadlock(t, tx, i+10, repeat)
					if failed == nil {
						t.Error("the phase's transaction is no victim")
					}
					if name == "returns the error" {
						return failed
					}
					_ = repeat()
					return nil
				}))
			if err != nil {
				t.Fatal(err)
			}
			id := stet.ID{Scope: "phases", Key: stet.Key(key(i))}
			_, _ = f.Do(t.Context(), stet.Request{ID: id}, struct{}{})
			r, err := e.Get(t.Context(), id)
			if err != nil || r.State != want[name] {
				t.Errorf("it is %s (%s) after %d tries, %v; want %s", r.State, r.Cause, tries, err, want[name])
			}
			made := map[stet.State]int{stet.Completed: 1}[r.State]
			d.orders(t, i, made)
		})
	}
}

func key(i int) string { return fmt.Sprint("order-", i) }

func pay(t *testing.T, h http.Handler, i int) int {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", strings.NewReader("1"))
	r.Header.Set("Idempotency-Key", key(i))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// deadlock lets another transaction, which has more to lose, wait for the handler's, which then
// waits for the other.
func (d *Database) deadlock(t *testing.T, tx *sql.Tx, i int, repeat func() error) error {
	other, err := d.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 50 {
		send(t, other, fmt.Sprint("INSERT INTO orders VALUES (", 1000*i+n, ")"))
	}
	send(t, other, update)
	if d.Setup != "" {
		send(t, tx, d.Setup)
	}
	send(t, tx, "UPDATE stock SET n = n - 1 WHERE id = 1")
	ended := make(chan error)
	go func() {
		_, err := other.ExecContext(t.Context(), "UPDATE stock SET n = n - 1 WHERE id = 1")
		if err == nil {
			err = other.Commit()
		}
		ended <- err
	}()
	for waits, until := 0, time.Now().Add(time.Minute); waits == 0; {
		if err := d.DB.QueryRowContext(t.Context(), d.Waits).Scan(&waits); err != nil || time.Now().After(until) {
			t.Fatal("the other transaction does not wait: ", err)
		}
	}
	err = repeat()
	if err := <-ended; err != nil {
		t.Errorf("the other transaction: %v", err)
	}
	return err
}

func send(t *testing.T, on interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, statement string,
) {
	t.Helper()
	if _, err := on.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
