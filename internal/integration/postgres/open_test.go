package postgres

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/badnet"
	"github.com/stet-dev/stet/internal/pgstore"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/sqlstore"
)

func pool(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Many processes start at once on an empty database, by either way: the schema is made once
// (S2-03).
func TestManyMigrateAtOnce(t *testing.T) {
	direct := database(t, address(t), t.Name())
	p := pool(t, direct)
	if have, want, err := pgxstore.Status(t.Context(), p); have != 0 || want == 0 || err != nil {
		t.Fatalf("before: %d of %d, %v", have, want, err)
	}
	if _, err := pgxstore.Open(t.Context(), p, pgxstore.Config{}); !errors.Is(err, pgxstore.ErrSchema) {
		t.Errorf("opened without a schema: %v", err)
	}
	db := openDB(t, direct)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			migrate := func() error { return pgxstore.Migrate(t.Context(), p) }
			if i%2 == 1 {
				migrate = func() error { return sqlstore.Migrate(t.Context(), db, sqlstore.Postgres) }
			}
			if err := migrate(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if have, want, err := sqlstore.Status(t.Context(), db, sqlstore.Postgres); have != want || err != nil {
		t.Errorf("after: %d of %d, %v", have, want, err)
	}
	if _, err := p.Exec(t.Context(), "INSERT INTO stet_schema (version) VALUES (99)"); err != nil {
		t.Fatal(err)
	}
	_, err := pgxstore.Open(t.Context(), p, pgxstore.Config{})
	for what, err := range map[string]error{"Open": err, "Migrate": pgxstore.Migrate(t.Context(), p)} {
		if !errors.Is(err, pgxstore.ErrSchema) || !strings.Contains(err.Error(), "newer") {
			t.Errorf("%s on the schema of a newer program: %v", what, err)
		}
	}
}

// A schema that another process makes while one looks for it is the store's own, not one elsewhere.
func TestMigratedWhileOneLooks(t *testing.T) {
	db := openDB(t, database(t, address(t), t.Name()))
	migrated := &migratedBetween{DB: db}
	if is, err := pgstore.Status(t.Context(), pgstore.SQL{On: migrated}, sqlstore.ErrSchema); is.Have != 0 || err != nil {
		t.Errorf("looked for too early, the schema is of version %d: %v", is.Have, err)
	}
	if is, err := pgstore.Status(t.Context(), pgstore.SQL{On: migrated}, sqlstore.ErrSchema); is.Have != is.Want || err != nil {
		t.Errorf("after that it is of version %d: %v", is.Have, err)
	}
}

// migratedBetween is a database that another process migrates between the first query and the next.
type migratedBetween struct {
	*sql.DB
	queries int
}

func (m *migratedBetween) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if m.queries++; m.queries == 2 {
		if err := sqlstore.Migrate(ctx, m.DB, sqlstore.Postgres); err != nil {
			return nil, err
		}
	}
	return m.DB.QueryContext(ctx, query, args...)
}

// Settings by which a promise would not hold are refused, and the error says what to set.
func TestSettingsRefused(t *testing.T) {
	direct := database(t, address(t), t.Name())
	if err := pgxstore.Migrate(t.Context(), pool(t, direct)); err != nil {
		t.Fatal(err)
	}
	for setting, value := range map[string]string{"synchronous_commit": "off", "default_transaction_isolation": "serializable"} {
		_, err := pgxstore.Open(t.Context(), pool(t, with(t, direct, setting, value)), pgxstore.Config{})
		if err == nil || !strings.Contains(err.Error(), setting) || !strings.Contains(err.Error(), "set it to") {
			t.Errorf("%s = %s: %v", setting, value, err)
		}
	}
	p := pool(t, direct)
	if _, err := p.Exec(t.Context(), "CREATE DATABASE stet_ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	ascii := pool(t, dsn(address(t), "stet_ascii"))
	if err := pgxstore.Migrate(t.Context(), ascii); err != nil {
		t.Fatal(err)
	}
	if _, err := pgxstore.Open(t.Context(), ascii, pgxstore.Config{}); err == nil || !strings.Contains(err.Error(), "UTF8") {
		t.Errorf("a database in ASCII: %v", err)
	}
	for _, c := range []pgxstore.Config{{ListenDSN: "postgres://u:secret@h:port/"}, {LockTimeout: -1}} {
		if _, err := pgxstore.Open(t.Context(), p, c); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c.LockTimeout, err)
		}
	}
}

// What another process changes wakes those who wait, by a notification and not by looking; and by
// looking once notifications do not come any more.
func TestNotified(t *testing.T) {
	direct := database(t, address(t), t.Name())
	proxy := badnet.New(t, address(t))
	waits := opened(t, direct, pgxstore.Config{ListenDSN: strings.Replace(direct[:len(direct)-len("&pool_max_conns=16")], address(t), proxy.Addr(), 1)})
	changes := opened(t, direct, pgxstore.Config{})
	woken(t, waits, changes) // from now on it listens
	eventually(t, "listener", func() bool {
		var n int
		err := waits.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND datname = current_database()").Scan(&n)
		return err == nil && n == 1
	})
	var took []time.Duration
	for range 5 {
		took = append(took, woken(t, waits, changes))
	}
	slices.Sort(took)
	tier.Took(t, "being woken, the second slowest of 5", took[3], 200*time.Millisecond) // looking takes half a second in the mean
	proxy.Refuse(true)
	proxy.Cut()
	woken(t, waits, changes)
}

// A closed store refuses, and Close does not wait for callers of Await.
func TestClose(t *testing.T) {
	s := open(t, database(t, address(t), t.Name()), pgxstore.Config{})
	made := create(t, s, "k")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Store.Close(); err != nil {
		t.Error(err)
	}
	_, err := s.Get(t.Context(), made.ID)
	_, created := s.Create(t.Context(), running("l"))
	for _, err := range []error{err, created, s.Wait(t.Context(), made.ID, made.Version)} {
		if !errors.Is(err, pgxstore.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// People read the view in psql; what is no text is written so that it can be told (S2-09).
func TestView(t *testing.T) {
	s := opened(t, database(t, address(t), t.Name()), pgxstore.Config{})
	made := create(t, s, "order-4711")
	h, b := completed(made.Head)
	h.Status = 503
	if _, err := s.Replace(t.Context(), made.Version, h, b); err != nil {
		t.Fatal(err)
	}
	odd := create(t, s, "a\x00b\xff\\é")
	ids := map[string]string{"order-4711": made.Tag, `a\x00b\xff\\é`: odd.Tag}
	for key, want := range map[string]string{"order-4711": "failed", `a\x00b\xff\\é`: "running"} {
		var id, state string
		var created time.Time
		err := s.pool.QueryRow(context.Background(), "SELECT id, state, created_at FROM stet_keys WHERE key = $1", key).Scan(&id, &state, &created)
		if err != nil || id != ids[key] || state != want || time.Since(created).Abs() > time.Hour {
			t.Errorf("%s is %s, created at %v (%v)", key, state, created, err)
		}
	}
}

// A row that was changed by hand is refused, alone (W29).
func TestChangedByHand(t *testing.T) {
	s := opened(t, database(t, address(t), t.Name()), pgxstore.Config{})
	create(t, s, "other")
	for i, change := range []string{"state = 'expired'", "status = 200", `route = 'a\x'`, "tag = tag + 1", "head = head || '\\x00'", "flags = 2", "schema = 99", "body = 'x'"} {
		made := create(t, s, strings.Repeat("k", i+1))
		if _, err := s.pool.Exec(t.Context(), "UPDATE stet_records SET "+change+" WHERE key = $1", string(made.Key)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), made.ID); !errors.Is(err, stet.ErrCorrupt) {
			t.Errorf("%s: Get: %v", change, err)
		}
		if _, err := s.Create(t.Context(), running(string(made.Key))); !errors.Is(err, stet.ErrCorrupt) {
			t.Errorf("%s: Create: %v", change, err)
		}
	}
	if heads, _, err := s.List(t.Context(), stet.Query{}); err != nil || len(heads) != 2 { // "other", and the one whose body alone was changed
		t.Errorf("%d are listed, %v", len(heads), err)
	}
}
