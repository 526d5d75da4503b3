package console

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/sqlstore"
)

const (
	unknown  = 5_000                  // of the keys
	quick    = 200 * time.Millisecond // a page
	consoles = 20                     // that are open, each of which reads its page every 5 s
	turn     = 5 * time.Second
	turns    = 6
	pace     = 5 * time.Millisecond // a request of a client begins
)

// TestAMillionKeys opens every page beside a million keys, 5,000 of them unknown, on SQLite and on
// Postgres: each is there within 200 ms. Then it times clients' requests by turns, with no console
// open and with twenty that read their pages every five seconds. It takes minutes: STET_SOAK=1;
// STET_ROWS is another number of keys.
func TestAMillionKeys(t *testing.T) {
	if os.Getenv("STET_SOAK") == "" {
		t.Skip("a million keys take minutes: STET_SOAK=1")
	}
	rows, _ := strconv.Atoi(cmp.Or(os.Getenv("STET_ROWS"), "1000000"))
	t.Run("sqlite", func(t *testing.T) {
		dir := t.TempDir()
		at := filepath.Join(dir, "stet.db")
		crowd(t, "sqlite", sqlstore.SQLiteDSN(at), sqlstore.SQLite, rows)
		timings(t, setup{settle: 600, dir: dir})
	})
	t.Run("postgres", func(t *testing.T) {
		at := "postgres://postgres@" + testserver.NewPostgres(t, "shared_buffers=512MB", "max_wal_size=4GB").Addr + "/postgres?sslmode=disable"
		crowd(t, "pgx", at, sqlstore.Postgres, rows)
		timings(t, setup{settle: 600, store: at})
	})
}

// crowd fills a database: with copies of a record that take its places in every index and cannot be
// read, and then, through an engine, with those that the pages show. Half of these are unknown, and
// a third of them were asked about once.
func crowd(t *testing.T, driver, dsn string, dialect sqlstore.Dialect, rows int) {
	t.Helper()
	began := time.Now()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(16)
	if err := sqlstore.Migrate(t.Context(), db, dialect); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: dialect})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e, err := stet.New(s, stet.Config{Holder: "gw-1:1", StoreTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := one(t.Context(), e, -1, false); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(copies[dialect], rows-2*unknown); err != nil {
		t.Fatal(err)
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < 2*unknown && !t.Failed(); i = int(next.Add(1)) - 1 {
				if err := one(t.Context(), e, i, i%2 == 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if dialect == sqlstore.Postgres {
		if _, err := db.Exec("VACUUM ANALYZE"); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d keys in %s", rows, time.Since(began).Round(time.Second))
}

const columns = `version, schema, state, status, flags, cause, route, downstream_key, downstream_id, due_at, updated_at, created_at, completed_at, head, body`

var copies = map[sqlstore.Dialect]string{
	sqlstore.SQLite: `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO stet_records (scope, key, tag, ` + columns + `) SELECT scope, hex(randomblob(16)), random(), ` + columns + ` FROM n, stet_records WHERE key = 'order--1'`,
	sqlstore.Postgres: `INSERT INTO stet_records (scope, key, tag, ` + columns + `) SELECT scope, md5(g::text) || g, g, ` + columns + `
		FROM stet_records, generate_series(1, $1::int) g WHERE key = 'order--1'`,
}

func one(ctx context.Context, e *stet.Engine, i int, lost bool) error {
	route := fmt.Sprint("POST /v1/r", max(i, 0)/1000%10)
	d, err := e.Begin(ctx, stet.Request{ID: stet.ID{Scope: stet.Scope(fmt.Sprint("tenant-", max(i, 0)%1000)), Key: stet.Key(fmt.Sprint("order-", i))}, Route: route,
		TraceID: fmt.Sprintf("%032x", max(i, 0)), Subject: stet.Subject{Method: "POST", Path: route[5:]}})
	if err != nil {
		return err
	}
	if !lost {
		return d.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 201, Body: []byte(`{"id":"ch_1999"}`)}})
	}
	d.Claim.Unknown("upstream-failed")
	if err := d.Claim.Settle(ctx, stet.Outcome{}); err != nil || i%3 > 0 {
		return err
	}
	h := d.Claim.Head()
	return e.Operator().AuditOf(ctx, &h, stet.Note{Who: "reconciler", Action: "probe", Evidence: "missing, status 404, in 12ms"})
}

func timings(t *testing.T, s setup) {
	w := newWorld(t, s)
	var doc struct{ Keys []struct{ ID string } }
	w.read("/api/v1/keys?state=unknown&limit=3", &doc)
	var in struct{ Incidents []struct{ Incident string } }
	w.read("/api/v1/incidents", &in)
	key, incident := "/keys/"+doc.Keys[0].ID, "/unknown/"+in.Incidents[0].Incident
	for _, at := range []string{"/", "/unknown", "/unknown?which=late", incident, incident + "/release", "/keys", "/keys?state=unknown", "/keys?state=failed",
		"/keys?scope=tenant-7", "/keys?route=POST+/v1/r3", "/keys?cause=upstream-failed", "/keys?path=/nowhere", "/keys?older_than_s=86400", "/keys?sort=oldest",
		"/keys?trace=" + fmt.Sprintf("%032x", 7), key, key + "/happened", "/dead", "/routes", "/audit", "/audit?who=reconciler", "/config", "/jobs"} {
		w.page(at)
		var took []time.Duration
		for range 9 {
			took = append(took, w.page(at))
		}
		slices.Sort(took)
		t.Logf("%-32s median %4d ms, worst %4d ms", strings.Replace(at, doc.Keys[0].ID, "ID", 1), took[4].Milliseconds(), took[8].Milliseconds())
		if took[4] > quick || took[8] > quick {
			t.Errorf("%s takes %s, at worst %s", at, took[4], took[8])
		}
	}
	w.beside()
}

// page fetches a page as the administrator, and returns how long it took.
func (w *world) page(at string) time.Duration {
	w.Helper()
	began := time.Now()
	if status, err := w.fetch(at); status != http.StatusOK || err != nil {
		w.Errorf("%s: %d %v", at, status, err)
	}
	return time.Since(began)
}

func (w *world) fetch(at string) (int, error) {
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.console+at, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+admin)
	r.Header.Set("Stet-Tick", "1")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, errors.Join(err, res.Body.Close())
}

// beside compares requests beside open consoles with requests beside none. What two series beside
// none differ by is what the machine differs by.
func (w *world) beside() {
	w.Helper()
	var took [3][]time.Duration // beside none, none again, and consoles
	w.requests(turn / 5)
	for i := range 3 * turns {
		kind := i % 3
		if kind < 2 {
			took[kind] = append(took[kind], w.requests(turn)...)
			continue
		}
		ctx, stop := context.WithCancel(w.Context())
		var open sync.WaitGroup
		for n := range consoles {
			open.Go(func() {
				at := []string{"/unknown", "/", "/unknown", "/keys?state=unknown", "/dead"}[n%5]
				wait := time.NewTimer(turn * time.Duration(n) / consoles)
				defer wait.Stop()
				for {
					select {
					case <-ctx.Done():
						return
					case <-wait.C:
					}
					w.page(at)
					wait.Reset(turn)
				}
			})
		}
		took[kind] = append(took[kind], w.requests(turn)...)
		stop()
		open.Wait()
	}
	p99 := func(all []time.Duration) time.Duration { slices.Sort(all); return all[len(all)*99/100] }
	none, again, with := p99(took[0]), p99(took[1]), p99(took[2])
	ratio := float64(with) / float64(max(none, again))
	w.Logf("p99 of a request: %s and %s beside no console, %s beside %d: %.2f", none, again, with, consoles, ratio)
	if ratio > 1.05 {
		w.Errorf("%d open consoles make the slowest requests %.0f %% slower", consoles, 100*(ratio-1))
	}
}

// requests sends requests for a while, each with a key of its own, and returns how long each took
// from when it was due.
func (w *world) requests(long time.Duration) (took []time.Duration) {
	w.Helper()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for end := time.Now().Add(long); time.Now().Before(end); {
		due := <-tick.C
		if a := w.client("new-" + strconv.FormatInt(due.UnixNano(), 36)); a.status != http.StatusCreated {
			w.Fatal(a)
		}
		took = append(took, time.Since(due))
	}
	return took
}
