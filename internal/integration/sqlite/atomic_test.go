package sqlite

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/sqlstore"
)

// till is an API whose handler writes a payment in the transaction that also stores its answer.
type till struct {
	t       *testing.T
	db      *sql.DB
	handler http.Handler
	during  func() // in the transaction, after the payment
	status  int
}

func newTill(t *testing.T) *till {
	t.Helper()
	p := &till{t: t, during: func() {}, status: http.StatusCreated}
	var err error
	if p.db, err = sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(t.TempDir(), "shop.db"))); err != nil {
		t.Fatal(err)
	}
	if err := sqlstore.Migrate(t.Context(), p.db, sqlstore.SQLite); err != nil {
		t.Fatal(err)
	}
	if _, err := p.db.ExecContext(t.Context(), "CREATE TABLE payments (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.Open(t.Context(), p.db, sqlstore.Config{Dialect: sqlstore.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := p.db.Close(); err != nil {
			t.Error(err)
		}
	})
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p.handler = stethttp.Middleware(e, stethttp.SingleTenant, stethttp.Config{})(stethttp.Atomic(p.db, func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
		res, err := tx.ExecContext(r.Context(), "INSERT INTO payments (amount) VALUES (1999)")
		if err != nil {
			t.Error(err)
			return
		}
		id, err := res.LastInsertId()
		if err != nil {
			t.Error(err)
		}
		p.during()
		w.WriteHeader(p.status)
		_, _ = fmt.Fprintf(w, `{"id":%d}`, id)
	}))
	return p
}

func (p *till) pay(key string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(p.t.Context(), http.MethodPost, "/payments", strings.NewReader("1999"))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	return w
}

func (p *till) payments(want int) {
	p.t.Helper()
	var n int
	if err := p.db.QueryRowContext(p.t.Context(), "SELECT count(*) FROM payments").Scan(&n); err != nil || n != want {
		p.t.Errorf("%d payments, %v; want %d", n, err, want)
	}
}

func TestPaymentAndAnswerAreOneTransaction(t *testing.T) { // I6, W4
	p := newTill(t)
	first := p.pay("k")
	if again := p.pay("k"); first.Code != 201 || again.Code != 201 || again.Body.String() != first.Body.String() || again.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %s, then %d %s", first.Code, first.Body, again.Code, again.Body)
	}
	p.payments(1)
	p.status = http.StatusInternalServerError
	if a := p.pay("k2"); a.Code != 500 {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	p.payments(1)
	p.status = http.StatusCreated
	if a := p.pay("k2"); a.Code != 201 {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	p.payments(2)
}

func TestDuplicatesAreToldAtOnceWhileATransactionRuns(t *testing.T) {
	p := newTill(t)
	var meanwhile *httptest.ResponseRecorder
	p.during = func() {
		p.during = func() {}
		meanwhile = p.pay("k")
	}
	if a := p.pay("k"); a.Code != 201 {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	if meanwhile == nil || meanwhile.Code != 409 || !strings.Contains(meanwhile.Body.String(), "in-progress") {
		t.Errorf("a duplicate meanwhile: %+v", meanwhile)
	}
	p.payments(1)
}

func TestRollbackUnderAHandlerThatSaysOtherwise(t *testing.T) { // what the handler did to its transaction decides
	p := newTill(t)
	broken := true
	p.handler = func() http.Handler { // a handler that ends the transaction by itself
		s, err := sqlstore.Open(t.Context(), p.db, sqlstore.Config{Dialect: sqlstore.SQLite})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		e, err := stet.New(s, stet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return stethttp.Middleware(e, stethttp.SingleTenant, stethttp.Config{})(stethttp.Atomic(p.db, func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
			if _, err := tx.ExecContext(r.Context(), "INSERT INTO payments (amount) VALUES (1)"); err != nil {
				t.Error(err)
			}
			if broken {
				_ = tx.Rollback()
			}
			w.WriteHeader(http.StatusCreated)
		}))
	}()
	if a := p.pay("k"); a.Code != 503 {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	p.payments(0)
	broken = false
	if a := p.pay("k"); a.Code != 201 {
		t.Errorf("the retry: %d %s", a.Code, a.Body)
	}
	p.payments(1)
}
