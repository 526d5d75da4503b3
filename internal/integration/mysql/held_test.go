package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/interference"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
)

// begin begins a caller's transaction, and returns the store within it.
func begin(t testing.TB, s stet.Store, db *sql.DB) (*sql.Tx, stet.Store) {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	b, ok := stet.As[stet.Binder](s)
	if !ok {
		t.Fatal("the store joins no transactions")
	}
	bound, err := b.Bind(tx)
	if err != nil {
		t.Fatal(err)
	}
	return tx, bound
}

// A row that an open transaction has changed: duplicates are answered at once, by what is
// committed, and neighbours in the same groups go on. Who wants that row itself gets it when the
// transaction ends, or an error by the deadline (CC-10).
func TestHeldRows(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *testserver.Server{
		"MariaDB": testserver.MariaDB,
		"MySQL":   func(t testing.TB) *testserver.Server { return testserver.NewMariaDB(t, "--version=8.0.36") },
	} {
		t.Run(name, func(t *testing.T) { heldRows(t, migrated(t, fresh(t, start(t).Addr))) })
	}
}

func heldRows(t *testing.T, db *sql.DB) {
	s := over(t, db)
	changed := create(t, s, "changed")
	tx, bound := begin(t, s, db)
	h, body := completed(changed, "in the transaction")
	if _, err := bound.Replace(t.Context(), changed.Version, h, body); err != nil {
		t.Fatal(err)
	}
	if _, err := bound.Create(t.Context(), named("created")); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var held, crowd sync.WaitGroup
	for range 8 { // those that want the rows themselves, and do not get them
		held.Go(func() {
			for again := changed.Head; ; {
				select {
				case <-done:
					return
				default:
				}
				again.Version = draw()
				if _, err := s.Replace(within(t, 100*time.Millisecond), changed.Version, again, nil); err == nil || errors.Is(err, stet.ErrStale) {
					t.Errorf("Replace of a held row: %v", err)
				}
				if _, err := s.Create(within(t, 100*time.Millisecond), named("created")); err == nil || errors.Is(err, stet.ErrExists) {
					t.Errorf("Create of a held row: %v", err)
				}
			}
		})
	}
	began := time.Now()
	patience := within(t, time.Minute)
	for i := range 64 {
		crowd.Go(func() {
			for round := range 5 {
				got, err := s.Create(patience, named("changed"))
				if !errors.Is(err, stet.ErrExists) || got.Version != changed.Version {
					t.Errorf("a duplicate gets %v", err)
				}
				r, err := s.Create(patience, named(fmt.Sprint("neighbour-", i, "-", round)))
				if err != nil {
					t.Error(err)
					return
				}
				next, answer := completed(r, "neighbour")
				if _, err := s.Replace(patience, r.Version, next, answer); err != nil {
					t.Error(err)
				}
			}
		})
	}
	crowd.Wait()
	took := time.Since(began)
	tier.Took(t, "a crowd of neighbours", took, 10*time.Second)
	close(done)
	held.Wait()
	// The last look at the row may still be under way when the time is over.
	if _, err := s.Create(within(t, 2500*time.Millisecond), named("created")); !errors.Is(err, stet.ErrBusy) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a row that is held to the end: %v", err)
	}
	patient := make(chan error, 1)
	go func() {
		_, err := s.Create(within(t, 30*time.Second), named("created"))
		patient <- err
	}()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-patient; !errors.Is(err, stet.ErrExists) {
		t.Errorf("after the commit: %v", err)
	}
	if got, err := s.Get(t.Context(), changed.ID); err != nil || got.Version != h.Version {
		t.Errorf("after the commit: version %d, %v", got.Version, err)
	}
}

// A transaction and a group that wait for each other: one of them is undone by the server, and the
// store tries again. It needs a server that waits for rows, so that the groups do: a MySQL.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	db := migrated(t, fresh(t, testserver.NewMariaDB(t, "--version=8.0.36", "--innodb-lock-wait-timeout=5").Addr))
	s := over(t, db)
	for round := range 5 {
		tx, bound := begin(t, s, db)
		name := func(i int) string { return fmt.Sprintf("%d-%02d", round, i) }
		for i := 15; i < 60; i++ { // the groups wait for the first; the others make it cheaper to undo a group
			if _, err := bound.Create(t.Context(), named(name(i))); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		created := make([]error, 16)
		for i := range created {
			wg.Go(func() { _, created[i] = s.Create(within(t, 30*time.Second), named(name(i))) })
		}
		lost := false
		for i := range 8 { // and this waits for the groups
			_, err := bound.Create(t.Context(), named(name(i)))
			if lost = err != nil && !errors.Is(err, stet.ErrExists); lost {
				break // it was the transaction that was undone, or that waited for too long
			}
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		for i, err := range created {
			if err != nil {
				t.Errorf("round %d, key %d: %v", round, i, err)
			}
		}
	}
	var text string
	var a, b string
	if err := db.QueryRow("SHOW ENGINE INNODB STATUS").Scan(&a, &b, &text); err != nil {
		t.Fatal(err)
	}
	t.Log("the server saw a deadlock:", strings.Contains(text, "LATEST DETECTED DEADLOCK"))
}

// A row that the server refuses is refused alone, and its error tells nothing of its key.
func TestPoisonedRows(t *testing.T) {
	s, db := open(t)
	execute(t, db, "CREATE TRIGGER poison BEFORE INSERT ON stet_records FOR EACH ROW IF NEW.`key` = 'poison-key' THEN SIGNAL SQLSTATE '45000' "+
		"SET MESSAGE_TEXT = 'poison-key is refused'; END IF")
	const callers = 64
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for round := range 4 {
				key := fmt.Sprint("good-", i, "-", round)
				if i%16 == 0 {
					key = "poison-key"
				}
				if _, err := s.Create(within(t, 30*time.Second), named(key)); err != nil {
					errs[i] = err
				}
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if (err != nil) != (i%16 == 0) {
			t.Errorf("caller %d: %v", i, err)
		}
		quiet(t, err, "poison-key")
	}
}

// Callers that have gone are left out, and those beside them are not.
func TestGoneCallers(t *testing.T) {
	s, _ := open(t)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			r := named(fmt.Sprint(i))
			if i%2 == 1 {
				ctx, cancel = context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
				defer cancel()
			}
			_, err := s.Create(ctx, r)
			got, gerr := s.Get(t.Context(), r.ID)
			switch {
			case i%2 == 0 && err != nil:
				t.Errorf("who stayed got %v", err)
			case err == nil && got.Version != r.Version:
				t.Errorf("created, and then: %v", gerr)
			case err != nil && strings.Contains(err.Error(), "nothing was written") && gerr == nil:
				t.Errorf("it is there, and its caller was told: %v", err)
			}
		})
	}
	wg.Wait()
}

// A call whose time is over in the instant of its answer leaves no connection behind that the
// driver has closed: the next caller would be told that the result of its write is not known.
func TestAnswersInTheLastInstant(t *testing.T) {
	tier.Campaign(t, "its deadlines are around how long an answer takes on this machine")
	s, _ := open(t)
	made := create(t, s, "k")
	began := time.Now()
	const calls = 3000
	for range 100 {
		if _, err := s.Get(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
	}
	usual := time.Since(began) / 100
	for i := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), usual/2+usual*time.Duration(i%100)/100)
		_, _ = s.Get(ctx, made.ID)
		cancel()
		if _, err := s.Get(t.Context(), made.ID); err != nil {
			t.Fatalf("after call %d: %v", i, err)
		}
	}
}

// Rows that an open transaction hold stop no background loop (A07).
func TestHeldRowsStopNoKeeper(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *testserver.Server{
		"MariaDB": testserver.MariaDB,
		"MySQL":   func(t testing.TB) *testserver.Server { return testserver.NewMariaDB(t, "--version=8.0.36") },
	} {
		t.Run(name, func(t *testing.T) {
			server(t, start, "")
			interference.HeldRows(t, backend)
		})
	}
}
