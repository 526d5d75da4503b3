package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

func binder(t testing.TB, s stet.Store) stet.Binder {
	t.Helper()
	b, ok := stet.As[stet.Binder](s)
	if !ok {
		t.Fatal("the store joins no transactions")
	}
	return b
}

// begin begins a transaction, which is rolled back where the test does not end it, and binds the
// store to it.
func begin(t testing.TB, s stet.Store, db *sql.DB) (*sql.Tx, stet.Store) {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	bound, err := binder(t, s).Bind(tx)
	if err != nil {
		t.Fatal(err)
	}
	return tx, bound
}

// Some errors make SQLite roll the whole transaction back, and then each statement commits by
// itself. A result must not become true so, without the business rows (I6).
func TestNothingIsWrittenAfterTheDatabaseRolledBack(t *testing.T) {
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	if _, err := db.Exec(`CREATE TABLE ledger (amount INTEGER);
		CREATE TRIGGER limited BEFORE INSERT ON ledger WHEN NEW.amount > 100 BEGIN SELECT RAISE(ROLLBACK, 'limit'); END`); err != nil {
		t.Fatal(err)
	}
	r := create(t, s, "k")
	tx, bound := begin(t, s, db)
	if _, err := tx.Exec("INSERT INTO ledger VALUES (101)"); err == nil {
		t.Fatal("the trigger let it pass") // and this caller does not look
	}
	h, b := completed(r, "paid")
	if _, err := bound.Replace(t.Context(), r.Version, h, b); !errors.Is(err, stet.ErrTxEnded) {
		t.Errorf("Replace: %v", err)
	}
	if _, err := bound.Get(t.Context(), r.ID); err == nil {
		t.Error("Get after that: no error")
	}
	if err := tx.Commit(); err == nil {
		t.Error("Commit: no error")
	}
	if got, err := s.Get(t.Context(), r.ID); err != nil || got.Version != r.Version {
		t.Errorf("the record is %v, %v", got.State, err)
	}
}

// What failed in a transaction by half must not be committed with the rest of it: the history would
// say what never happened.
func TestVerbThatFailedSpoilsTheTransaction(t *testing.T) {
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	r, other := create(t, s, "k"), create(t, s, "other")
	if _, err := db.Exec(`CREATE TRIGGER poison BEFORE UPDATE ON stet_records WHEN NEW.key = 'k' BEGIN SELECT RAISE(ABORT, 'poisoned'); END`); err != nil {
		t.Fatal(err)
	}
	tx, bound := begin(t, s, db)
	h, b := completed(r, "paid")
	h.Note = &stet.Note{Who: "w"}
	if _, err := bound.Replace(t.Context(), r.Version, h, b); err == nil || !strings.Contains(err.Error(), "poisoned") {
		t.Fatalf("Replace: %v", err)
	}
	h, b = completed(other, "paid")
	if _, err := bound.Replace(t.Context(), other.Version, h, b); err == nil || !strings.Contains(err.Error(), "has to be rolled back") {
		t.Errorf("the next verb: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

// A transaction is the store's to join where it is on its file and its commits last.
func TestBindAsksWhatTheTransactionIsOn(t *testing.T) {
	path := file(t)
	db := database(t, path)
	s := over(t, db, sqlstore.Config{})
	pool := func(dsn string) *sql.DB {
		db, err := sql.Open("sqlite", dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	hasty := strings.Replace(sqlstore.SQLiteDSN(path), "synchronous(FULL)", "synchronous(OFF)", 1)
	for name, c := range map[string]struct {
		db   *sql.DB
		want error
	}{
		"the same pool":                      {db, nil},
		"another pool":                       {pool(sqlstore.SQLiteDSN(path)), nil},
		"another file":                       {database(t, file(t)), stet.ErrForeignTx},
		"one whose commits need not outlast": {pool(hasty), stet.ErrForeignTx},
	} {
		tx, err := c.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := binder(t, s).Bind(tx); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if _, err := binder(t, s).Bind(tx); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("%s, ended: %v", name, err)
		}
	}
	if _, err := binder(t, s).Bind((*sql.Tx)(nil)); !errors.Is(err, stet.ErrForeignTx) {
		t.Errorf("a nil *sql.Tx: %v", err)
	}
}

// A transaction that writes holds the file: other keys' writes give up in time, and callers that
// only read notice nothing.
func TestWhatGoesOnBesideATransaction(t *testing.T) {
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	r, other := create(t, s, "k"), create(t, s, "other")
	tx, bound := begin(t, s, db)
	h, b := completed(r, "paid")
	h.Note, h.DownstreamID = &stet.Note{Who: "w"}, "ch_1"
	if _, err := bound.Replace(t.Context(), r.Version, h, b); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	h, b = completed(other, "paid")
	if _, err := s.Replace(ctx, other.Version, h, b); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a write of another key: %v", err)
	}
	reading, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heads, _, err := s.List(reading, stet.Query{})
	found, ferr := finder(t, s).Find(reading, "", "ch_1")
	changes, _, herr := historian(t, s).History(reading, stet.HistoryQuery{})
	if len(heads) != 2 || len(found) != 0 || len(changes) != 0 || errors.Join(err, ferr, herr) != nil {
		t.Errorf("listed %d, found %d, %d changes: %v", len(heads), len(found), len(changes), errors.Join(err, ferr, herr))
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), other.ID); err != nil || got.Version != other.Version {
		t.Errorf("what its caller gave up has happened: %v, %v", got.State, err)
	}
	if found, err := finder(t, s).Find(reading, "", "ch_1"); err != nil || len(found) != 1 {
		t.Errorf("after the commit %d are found, %v", len(found), err)
	}
}

// The typed door to [stet.Claim.In].
func TestIn(t *testing.T) {
	db := database(t, file(t))
	s := over(t, db, sqlstore.Config{})
	engine, err := stet.New(s, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := engine.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(sqlstore.In(d.Claim, tx), d.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}))
	if err = errors.Join(err, d.Claim.Confirm(t.Context(), tx.Commit())); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), d.Claim.ID()); err != nil || got.State != stet.Completed {
		t.Errorf("the record is %v, %v", got.State, err)
	}
}
