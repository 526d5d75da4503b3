package provider_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/examples/payments/provider"
)

var charge = provider.Effect{Kind: "charge", Reference: "order-7", Amount: 1999}

func start(t *testing.T, path string, ignoreKeys bool) provider.Client {
	t.Helper()
	ledger, err := provider.OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer((&provider.Server{Ledger: ledger, IgnoreKeys: ignoreKeys}).Handler())
	t.Cleanup(func() { srv.Close(); _ = ledger.Close() })
	return provider.Client{URL: srv.URL, HTTP: &http.Client{Timeout: 3 * time.Second}}
}

func TestCards(t *testing.T) {
	for _, c := range []struct {
		card       string
		ignoreKeys bool
		is         error // nil: any, where first is false
		first      bool  // the first call has an answer
		want       int   // effects of two calls with one key
	}{
		{"ok", false, nil, true, 1},
		{"ok", true, nil, true, 2},
		{"drop", false, nil, false, 1},
		{"drop", true, nil, false, 2},
		{"hang", false, nil, false, 1},
		{"decline", false, provider.ErrDeclined, false, 0},
	} {
		client := start(t, filepath.Join(t.TempDir(), "ledger"), c.ignoreKeys)
		_, err := client.Create(t.Context(), "k", c.card, charge)
		if (err == nil) != c.first || c.is != nil && !errors.Is(err, c.is) || c.is == nil && errors.Is(err, provider.ErrNothing) {
			t.Errorf("%s: %v", c.card, err)
		}
		_, _ = client.Create(t.Context(), "k", c.card, charge)
		if all := effects(t, client); len(all) != c.want {
			t.Errorf("%s, keys ignored %v: %d effects, want %d", c.card, c.ignoreKeys, len(all), c.want)
		}
	}
}

// What is late is not carried out, so that "not found" becomes a proof (I14).
func TestLateIsRefused(t *testing.T) {
	client := start(t, filepath.Join(t.TempDir(), "ledger"), true)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, client.URL+"/v1/charges", strings.NewReader(`{"amount":1999}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Not-After", time.Now().Add(-time.Millisecond).Format(time.RFC3339Nano))
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Body.Close()
	if all := effects(t, client); w.StatusCode != http.StatusRequestTimeout || len(all) != 0 {
		t.Errorf("it answered %d and has %v", w.StatusCode, all)
	}
}

func TestFindWaitsForTheHorizon(t *testing.T) {
	client := start(t, filepath.Join(t.TempDir(), "ledger"), true)
	began := time.Now()
	if _, found, err := client.Find(t.Context(), "k"); found || err != nil || time.Since(began) < provider.Horizon {
		t.Errorf("found %v, %v after %s", found, err, time.Since(began))
	}
	made, err := client.Create(t.Context(), "k", "ok", charge)
	if err != nil {
		t.Fatal(err)
	}
	if e, found, err := client.Find(t.Context(), "k"); e != made || !found || err != nil {
		t.Errorf("found %v %v, %v", e, found, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := client.Find(ctx, "other"); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "other") {
		t.Errorf("an error without the key was to come: %v", err)
	}
}

func TestNobodyThereIsNothingDone(t *testing.T) {
	far := httptest.NewServer(http.NotFoundHandler())
	far.Close()
	if _, err := (provider.Client{URL: far.URL, HTTP: http.DefaultClient}).Create(t.Context(), "k", "ok", charge); !errors.Is(err, provider.ErrNothing) {
		t.Errorf("a refused connection is %v", err)
	}
}

// The ledger survives the process.
func TestLedgerIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	first, err := start(t, path, false).Create(t.Context(), "k", "ok", charge)
	if err != nil {
		t.Fatal(err)
	}
	again := start(t, path, false)
	if e, err := again.Create(t.Context(), "k", "ok", charge); err != nil || e != first || len(effects(t, again)) != 1 {
		t.Errorf("%v, %v", e, err)
	}
}

func effects(t *testing.T, c provider.Client) []provider.Effect {
	t.Helper()
	all, err := c.Effects(t.Context(), url.Values{"reference": {"order-7"}})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
