package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/cmd/internal/observe"
	"github.com/stet-dev/stet/store/memstore"
)

// changing is a store whose server's settings can be changed.
type changing struct {
	*memstore.Store
	found atomic.Pointer[error]
}

func (c *changing) Check(context.Context) error { return *c.found.Load() }

// B05: settings that lose records are noticed within a minute, said once, and take the gateway
// out of rotation until they are mended.
func TestVolatileSettingsAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &awaited{}
		s := &changing{Store: memstore.New(memstore.Config{})}
		s.found.Store(new(error))
		a := &app{conf: &config.Config{}, log: slog.New(slog.NewTextHandler(log, nil)), metrics: observe.NewMetrics("test"),
			store: &dsn.Opened{Store: s}}
		a.conf.Store.Timeout = config.Seconds(time.Second)
		e, err := stet.New(s, stet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		a.durable = a.watched()
		operators := admin.New(e, admin.Config{Unready: a.durable.unready, Metrics: a.metrics.Handler()})
		get := func(path string) (int, string) {
			synctest.Wait()
			r, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
			r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
			operators.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		is := func(when string, status int, body, lines string) {
			t.Helper()
			if got, said := get("/readyz"); got != status || said != body+"\n" {
				t.Errorf("%s: /readyz %d %q, want %d %q", when, got, said, status, body)
			}
			metric := "\nidem_store_volatile 0\n"
			if status == 503 {
				metric = "\nidem_store_volatile 1\n"
			}
			if _, text := get("/metrics"); !strings.Contains(text, metric) {
				t.Errorf("%s: the metrics have no%s", when, metric)
			}
			errs, infos := strings.Count(log.text(), "level=ERROR"), strings.Count(log.text(), "level=INFO")
			if got := fmt.Sprint(errs, infos); got != lines {
				t.Errorf("%s: errors and infos in the log: %s, want %s\n%s", when, got, lines, log.text())
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go a.durable.run(ctx)
		is("as opened", 200, "ready", "0 0")
		s.found.Store(new(fmt.Errorf("%w: fsync is off", stet.ErrVolatile)))
		time.Sleep(checkEvery)
		is("after a minute", 503, "the store may lose what it acknowledged: fsync is off", "1 0")
		time.Sleep(10 * checkEvery)
		is("after eleven minutes", 503, "the store may lose what it acknowledged: fsync is off", "1 0")
		s.found.Store(new(errors.New("away")))
		time.Sleep(checkEvery)
		is("while nobody can tell", 503, "the store may lose what it acknowledged: fsync is off", "1 0")
		s.found.Store(new(error))
		a.durable.soon() // SIGHUP
		is("mended", 200, "ready", "1 1")
		s.found.Store(new(fmt.Errorf("%w: appendonly is no", stet.ErrVolatile)))
		a.durable.soon()
		is("and lost again", 503, "the store may lose what it acknowledged: appendonly is no", "2 1")
	})
}

// A store of which nothing can change has no series, and is ready.
func TestNothingToWatch(t *testing.T) {
	a := &app{conf: &config.Config{}, metrics: observe.NewMetrics("test"),
		store: &dsn.Opened{Store: memstore.New(memstore.Config{})}}
	if a.durable = a.watched(); a.durable != nil || a.durable.unready() != "" {
		t.Error("memory has settings to look at")
	}
	a.durable.soon()
	w := httptest.NewRecorder()
	a.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if text := w.Body.String(); strings.Contains(text, "idem_store_volatile") ||
		strings.Contains(text, "idem_store_log_bytes") {
		t.Error("series of what is not there")
	}
}
