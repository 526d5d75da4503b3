package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/pgxstore"
)

const emptied = "TRUNCATE stet_records, stet_history, stet_outbox, stet_store RESTART IDENTITY"

// backup copies what the store has, and returns what puts it back.
func backup(t testing.TB, exec func(sql string) error) (restore func()) {
	t.Helper()
	run := func(all ...string) {
		t.Helper()
		for _, sql := range all {
			if err := exec(sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	run("CREATE TABLE copied_records AS SELECT * FROM stet_records", "CREATE TABLE copied_store AS SELECT * FROM stet_store")
	return func() {
		t.Helper()
		run(`DO $$ BEGIN
			TRUNCATE stet_records, stet_store;
			INSERT INTO stet_records OVERRIDING SYSTEM VALUE SELECT * FROM copied_records;
			INSERT INTO stet_store SELECT * FROM copied_store;
		END $$`)
	}
}

// A write that goes to another store before the store was looked at again is refused by the
// statement itself, alone, in a group and within a transaction (S03, S10).
func TestTheStatementLooksAtTheStore(t *testing.T) {
	for _, change := range []string{"mark = mark - 1", "id = 'st_other'"} {
		s := opened(t, database(t, address(t), t.Name()+change), pgxstore.Config{})
		made := create(t, s, "made")
		raised(t, s)
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		in, err := s.Bind(tx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.pool.Exec(t.Context(), "UPDATE stet_store SET "+change); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Create(t.Context(), running("within")); err == nil {
			t.Errorf("%s: a Create within a transaction succeeded", change)
		}
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				h, b := completed(made.Head)
				_, err := s.Create(within(t, 30*time.Second), running(strings.Repeat("n", i+1)))
				if i%3 == 1 {
					_, err = s.Replace(within(t, 30*time.Second), made.Version, h, b)
				}
				if i%3 == 2 {
					err = s.Delete(within(t, 30*time.Second), made.ID, made.Version)
				}
				if !errors.Is(err, stet.ErrForeign) {
					t.Errorf("%s: %d: %v", change, i, err)
				}
			})
		}
		wg.Wait()
		if _, err := s.Bind(tx); !errors.Is(err, stet.ErrForeign) {
			t.Errorf("%s: Bind: %v", change, err)
		}
		if heads, _, err := s.List(t.Context(), stet.Query{}); err != nil || len(heads) != 1 || heads[0].Version != made.Version {
			t.Errorf("%s: there are %d records, %v", change, len(heads), err)
		}
	}
}

// statements counts what is sent.
type statements struct{ records, looks atomic.Int64 }

func (c *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	switch {
	case strings.Contains(q.SQL, "stet_records"):
		c.records.Add(1)
	case strings.Contains(q.SQL, "stet_store"):
		c.looks.Add(1)
	}
	return ctx
}

func (c *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A key costs two statements. That the store is looked at costs some each second, however many keys
// there are.
func TestStatementsOfAKey(t *testing.T) {
	address := database(t, address(t), t.Name())
	_ = opened(t, address, pgxstore.Config{}) // migrates
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	pgxstore.Prepare(config)
	sent := &statements{}
	config.ConnConfig.Tracer = sent
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := pgxstore.Open(t.Context(), pool, pgxstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	began := time.Now()
	sent.records.Store(0)
	sent.looks.Store(0)
	const keys = 200
	for range keys {
		if err := pair(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if n := sent.records.Load(); n != 2*keys {
		t.Errorf("%d keys took %d statements", keys, n)
	}
	if n := sent.looks.Load(); n > 2*int64(2+time.Since(began)/time.Second) { // a look and a raise
		t.Errorf("the store was looked at %d times", n)
	}
}

// raised waits until the store has raised its mark, and has looked at that a moment ago.
func raised(t testing.TB, s stet.Store) {
	t.Helper()
	i, _ := stet.As[stet.Identified](s)
	eventually(t, "mark", func() bool {
		err := s.Delete(t.Context(), running("none").ID, 1)
		now, _, looked := i.Identity(t.Context())
		return errors.Is(err, stet.ErrNotFound) && looked == nil && now.Mark > 0
	})
}
