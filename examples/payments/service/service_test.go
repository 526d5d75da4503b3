package service_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/stet-dev/stet/examples/payments/provider"
	"github.com/stet-dev/stet/examples/payments/service"
)

// shop is a service with its provider, in one process.
type shop struct {
	db       *sql.DB
	api      *httptest.Server
	provider provider.Client
}

func open(t *testing.T, honours bool, retain time.Duration) *shop {
	t.Helper()
	ledger, err := provider.OpenLedger(filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	far := httptest.NewServer((&provider.Server{Ledger: ledger, IgnoreKeys: !honours}).Handler())
	t.Cleanup(far.Close)
	sh := &shop{provider: provider.Client{URL: far.URL, HTTP: &http.Client{Timeout: time.Second}}}
	if sh.db, err = sql.Open("sqlite", service.DSN(filepath.Join(t.TempDir(), "shop.db"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sh.db.Close() })
	if err := service.Migrate(t.Context(), sh.db); err != nil {
		t.Fatal(err)
	}
	s, err := service.New(t.Context(), service.Config{DB: sh.db, Provider: sh.provider, HonoursKeys: honours, Retain: retain,
		Lease: 3 * time.Second, Every: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	sh.api = httptest.NewServer(s.Handler())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	loops := make(chan error, 1)
	go func() { loops <- s.Run(ctx) }()
	t.Cleanup(func() {
		sh.api.Close()
		cancel()
		if err := <-loops; err != nil {
			t.Error(err)
		}
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sh
}

// ask sends a request until it has a final answer: everything but a conflict and "not now".
func (s *shop) ask(t *testing.T, what, key, card string) (status int, body string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.api.URL+"/v1/"+what,
			strings.NewReader(fmt.Sprintf(`{"reference":%q,"amount":1999,"card":%q}`, "order-"+key, card)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", key)
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(w.Body)
		_ = w.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if w.StatusCode < 500 && w.StatusCode != http.StatusConflict {
			return w.StatusCode, string(b)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s, %s: still %d %s", what, card, w.StatusCode, b)
		}
		eventually(t, func() bool { return true }) // after a while
	}
}

// eventually polls for a condition.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(20 * time.Second); ; {
		select {
		case <-tick.C:
			if ok() {
				return
			}
		case <-deadline:
			t.Fatal("it never came to that")
		}
	}
}

func (s *shop) effects(t *testing.T, reference string) []provider.Effect {
	t.Helper()
	all, err := s.provider.Effects(t.Context(), url.Values{"reference": {reference}})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Whatever the provider does, there is one effect, and the client is told of it: I1, I14.
func TestProviderMisbehaves(t *testing.T) {
	for _, honours := range []bool{true, false} {
		sh := open(t, honours, 0)
		for _, what := range []string{"refunds", "payouts", "payments"} {
			for _, card := range []string{"ok", "drop", "hang", "decline"} {
				t.Run(fmt.Sprintf("honours=%v/%s/%s", honours, what, card), func(t *testing.T) {
					key := fmt.Sprintf("%s-%s-0123456789", what, card)
					want, status := 1, http.StatusCreated
					if card == "decline" {
						want = 0
						if what != "payouts" { // the promise was kept to the client; that the provider refused it is a dead letter
							status = http.StatusPaymentRequired
						}
					}
					got, first := sh.ask(t, what, key, card)
					again, second := sh.ask(t, what, key, card)
					if got != status || again != got || second != first {
						t.Errorf("the answers are %d %s and %d %s, want %d", got, first, again, second, status)
					}
					if what == "payouts" {
						sh.delivered(t, key)
					}
					all := sh.effects(t, "order-"+key)
					if len(all) != want {
						t.Errorf("%d effects, want %d", len(all), want)
					}
					var told struct {
						Provider string `json:"provider_id"`
					}
					if err := json.Unmarshal([]byte(first), &told); err != nil || told.Provider != "" && told.Provider != all[0].ID {
						t.Errorf("the client was told of %q (%v), and there is %v", told.Provider, err, all)
					}
				})
			}
		}
		var reserved int
		if err := sh.db.QueryRow("SELECT count(*) FROM payments WHERE state = 'reserved'").Scan(&reserved); err != nil || reserved != 0 {
			t.Errorf("%d payments are neither paid nor declined, %v", reserved, err)
		}
	}
}

// delivered waits until the payout's message has ended.
func (s *shop) delivered(t *testing.T, key string) {
	t.Helper()
	eventually(t, func() bool {
		var state string
		err := s.db.QueryRow("SELECT state FROM stet_outbox WHERE key = ?", key).Scan(&state)
		return err == nil && (state == "done" || state == "dead")
	})
}

// A client that uses its key again after the retention asks for another refund, and gets it: the
// provider's keys name a life of the client's.
func TestAKeysNextLifeIsAnotherRefund(t *testing.T) { // N03
	sh := open(t, true, 300*time.Millisecond)
	const key = "refunds-again-0123456789"
	for lives := 1; lives <= 2; lives++ {
		if status, body := sh.ask(t, "refunds", key, "ok"); status != http.StatusCreated {
			t.Fatal(status, body)
		}
		if made := sh.effects(t, "order-"+key); len(made) != lives {
			t.Fatalf("%d lives, %d refunds", lives, len(made))
		}
		eventually(t, func() bool {
			var records int
			err := sh.db.QueryRow("SELECT count(*) FROM stet_records WHERE key = ?", key).Scan(&records)
			return err == nil && records == 0
		})
	}
}

// Rows outlive the records they refer to: I10.
func TestReapedRecordsLeaveRows(t *testing.T) {
	sh := open(t, true, 300*time.Millisecond)
	for _, what := range []string{"payouts", "payments"} {
		key := what + "-reaped-0123456789"
		if status, body := sh.ask(t, what, key, "ok"); status != http.StatusCreated {
			t.Fatal(status, body)
		}
		if what == "payouts" {
			sh.delivered(t, key)
		}
		eventually(t, func() bool {
			var records int
			if err := sh.db.QueryRow("SELECT count(*) FROM stet_records WHERE key = ?", key).Scan(&records); err != nil {
				t.Fatal(err)
			}
			return records == 0
		})
		var amount int
		var record sql.NullString
		err := sh.db.QueryRow("SELECT amount, key FROM "+what+" WHERE reference = ?", "order-"+key).Scan(&amount, &record)
		if err != nil || amount != 1999 || record.Valid {
			t.Errorf("%s: the row has amount %d and record %v, %v", what, amount, record, err)
		}
	}
}
