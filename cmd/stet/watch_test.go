package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/cmd/internal/observe"
	"github.com/stet-dev/stet/internal/storeid"
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
		a.watch = a.watched()
		operators := admin.New(e, admin.Config{Unready: a.watch.unready, Metrics: a.metrics.Handler()})
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
		go a.watch.run(ctx)
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
		a.watch.soon() // SIGHUP
		is("mended", 200, "ready", "1 1")
		s.found.Store(new(fmt.Errorf("%w: appendonly is no", stet.ErrVolatile)))
		a.watch.soon()
		is("and lost again", 503, "the store may lose what it acknowledged: appendonly is no", "2 1")
	})
}

// A store of which nothing can change has no series, and is ready.
func TestNothingToWatch(t *testing.T) {
	a := &app{conf: &config.Config{}, metrics: observe.NewMetrics("test"),
		store: &dsn.Opened{Store: memstore.New(memstore.Config{})}}
	if a.watch = a.watched(); a.watch != nil || a.watch.unready() != "" {
		t.Error("memory has settings to look at")
	}
	a.watch.soon()
	w := httptest.NewRecorder()
	a.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if text := w.Body.String(); strings.Contains(text, "idem_store_volatile") ||
		strings.Contains(text, "idem_store_log_bytes") {
		t.Error("series of what is not there")
	}
}

// sited is a store whose identity a test sets, and which may refuse to be written.
type sited struct {
	*memstore.Store
	*storeid.Gate
	mu      sync.Mutex
	id      stet.Identity
	refuses error
}

func newSited(t *testing.T) *sited {
	s := &sited{Store: memstore.New(memstore.Config{}), id: stet.Identity{ID: "st_first", Mark: 7}}
	s.Gate = &storeid.Gate{
		Look: func(context.Context) (stet.Identity, error) { s.mu.Lock(); defer s.mu.Unlock(); return s.id, nil },
		Make: func(_ context.Context, _, next stet.Identity) error { s.set(next, nil); return nil },
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sited) set(id stet.Identity, refuses error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.refuses = id, refuses
}

func (s *sited) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	s.mu.Lock()
	refuses := s.refuses
	s.mu.Unlock()
	if err := cmp.Or(s.Write(ctx), refuses); err != nil {
		return stet.Record{}, err
	}
	return s.Store.Create(ctx, r)
}

// A store that is another one than it was, or that takes no writes, takes the gateway out of
// rotation within seconds, or a minute, and is said once.
func TestAnotherStoreIsNoticed(t *testing.T) { // S-I, S08
	synctest.Test(t, func(t *testing.T) {
		log, s := &awaited{}, newSited(t)
		first := s.id
		a := &app{conf: &config.Config{}, log: slog.New(slog.NewTextHandler(log, nil)), metrics: observe.NewMetrics("test"),
			store: &dsn.Opened{Store: s}}
		a.conf.Store.Timeout = config.Seconds(time.Second)
		a.watch = a.watched()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go a.watch.run(ctx)
		is := func(when, why, metrics, lines string) {
			t.Helper()
			synctest.Wait()
			if got := a.watch.unready(); !strings.Contains(got, why) || (got == "") != (why == "") {
				t.Errorf("%s it is unready because of %q", when, got)
			}
			w := httptest.NewRecorder()
			a.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			for _, line := range strings.Split(metrics, ", ") {
				if !strings.Contains(w.Body.String(), "\nidem_store_"+line+"\n") {
					t.Errorf("%s the metrics have no idem_store_%s", when, line)
				}
			}
			if got := fmt.Sprint(strings.Count(log.text(), "level=ERROR"), strings.Count(log.text(), "level=INFO")); got != lines {
				t.Errorf("%s errors and infos in the log: %s, want %s\n%s", when, got, lines, log.text())
			}
		}
		is("as opened,", "", "foreign 0, unusable 0", "0 0")
		s.set(stet.Identity{}, nil)
		time.Sleep(namedEvery)
		is("emptied,", "it was emptied", "foreign 1, unusable 0", "1 0")
		time.Sleep(5 * checkEvery)
		is("minutes later,", "it was emptied", "foreign 1, unusable 0", "1 0")
		s.set(first, nil)
		time.Sleep(namedEvery)
		is("back,", "", "foreign 0, unusable 0", "1 1")
		s.set(first, errors.New("permission denied"))
		time.Sleep(checkEvery)
		is("read-only,", "make a record of Stet's own: permission denied", "foreign 0, unusable 1", "2 1")
		s.set(first, nil)
		time.Sleep(namedEvery)
		is("granted again,", "", "foreign 0, unusable 0", "2 2")
		for _, spared := range []error{stet.ErrFull, stet.ErrBusy, context.DeadlineExceeded} {
			s.set(first, spared)
			time.Sleep(checkEvery)
			is(spared.Error(), "", "foreign 0, unusable 0", "2 2")
		}
	})
}

// Which store it is can be shown, and taken as it is by its name.
func TestStoreCommands(t *testing.T) { // S-I
	s := newSited(t)
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	gate := httptest.NewServer(admin.New(e, admin.Config{}))
	defer gate.Close()
	says := func(want exit, stdout, stderr string, args ...string) {
		t.Helper()
		status, out, errs := ran(t, append(args, "--admin", gate.URL)...)
		if status != want || !strings.Contains(out, stdout) || !strings.Contains(errs, stderr) {
			t.Errorf("%v: %d\n%s%s", args, status, out, errs)
		}
	}
	says(exitFine, "st_first", "", "store", "show")
	says(exitError, "", "nothing to accept", "store", "accept", "--yes", "--reason", "INC-1")
	s.set(stet.Identity{ID: "st_second", Mark: 1}, nil)
	says(exitFindings, "st_first at mark 7", "stet store accept", "store", "show")
	says(exitFindings, `"foreign": true`, "", "store", "show", "--json")
	says(exitUsage, "", "--reason", "store", "accept", "--yes")
	says(exitError, "", "another one by now", "store", "accept", "--yes", "--reason", "INC-1", "--id", "")
	says(exitFine, "changed 1", "run again", "store", "accept", "--yes", "--reason", "INC-1")
	says(exitFine, "st_second", "", "store", "show")
	says(exitError, "", "nothing to accept", "store", "accept", "--yes", "--reason", "INC-1")
}
