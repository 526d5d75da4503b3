package mysql

import (
	"errors"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/integration/victim"
)

// A transaction on another database is no transaction that the store can join: what is written in
// it would be seen by no reader of the store. It stays usable (B08).
func TestBindOnlyToTheSameDatabase(t *testing.T) {
	addr := testserver.MariaDB(t).Addr
	home, away, bare := fresh(t, addr), fresh(t, addr), fresh(t, addr)
	migrated(t, away)
	s := over(t, migrated(t, home))
	binder, ok := stet.As[stet.Binder](s)
	if !ok {
		t.Fatal("the store joins no transactions")
	}
	for name, c := range map[string]struct {
		dsn  string
		want error
	}{
		"the same": {home, nil}, "another database": {away, stet.ErrForeignTx}, "one without a store": {bare, stet.ErrForeignTx},
		"none": {"root@tcp(" + addr + ")/", stet.ErrForeignTx},
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := connect(t, c.dsn).BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := binder.Bind(tx); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if _, err := tx.ExecContext(t.Context(), "DO 1"); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
		})
	}
	execute(t, connect(t, home), "UPDATE stet_database SET id = UUID()") // as where it was restored from a copy
	tx, err := connect(t, home).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := binder.Bind(tx); err != nil {
		t.Errorf("a database that was made anew: %v", err)
	}
}

// The victim of a deadlock goes on without a transaction: what it sends then happens by itself, so
// that it is neither completed nor free, unless the handler knows better.
func TestVictimOfADeadlock(t *testing.T) { // Q01
	db := migrated(t, fresh(t, testserver.MariaDB(t).Addr))
	d := victim.Database{DB: db, Store: over(t, db),
		// innodb_trx stays as it is for as long as it is read more often than each 100 ms.
		Waits: "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'"}
	victim.Test(t, d, map[string]stet.State{"repeats the statement": stet.Unknown, "ignores the error": stet.Unknown,
		"repeats and fails": stet.Unknown, "states that nothing happened": stet.Retryable})
	victim.TestPhase(t, d, map[string]stet.State{"returns the error": stet.Completed, "repeats the statement": stet.Unknown})
}
