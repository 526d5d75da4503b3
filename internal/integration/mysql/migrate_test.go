package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/sqlstore"
)

func TestMigrateFromManyAtOnce(t *testing.T) {
	dsn := fresh(t, testserver.MariaDB(t).Addr)
	var wg sync.WaitGroup
	for range 8 {
		db := connect(t, dsn)
		wg.Go(func() {
			if err := sqlstore.Migrate(t.Context(), db, sqlstore.MySQL); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	db := connect(t, dsn)
	have, want, err := sqlstore.Status(t.Context(), db, sqlstore.MySQL)
	if err != nil || have != want || want < 1 {
		t.Errorf("version %d of %d, %v", have, want, err)
	}
	var free int
	if err := db.QueryRow("SELECT IS_FREE_LOCK(CONCAT('stet.migrate.', MD5(DATABASE())))").Scan(&free); err != nil || free != 1 {
		t.Errorf("the lock is free: %d, %v", free, err)
	}
}

// A step that fails in the middle, where nothing can be undone, is taken again.
func TestMigrateAfterAFailure(t *testing.T) {
	dsn := fresh(t, testserver.MariaDB(t).Addr)
	db := connect(t, dsn)
	execute(t, db, "CREATE TABLE stet_keys (in_the_way INT)") // where the view goes, at the end of a step
	if err := sqlstore.Migrate(t.Context(), db, sqlstore.MySQL); err == nil {
		t.Fatal("no error")
	}
	if have, _, err := sqlstore.Status(t.Context(), db, sqlstore.MySQL); have != 0 || err != nil {
		t.Fatalf("version %d, %v", have, err)
	}
	execute(t, db, "DROP TABLE stet_keys")
	over(t, migrated(t, dsn))
}

func TestMigrateRefusesANewerSchema(t *testing.T) {
	db := migrated(t, fresh(t, testserver.MariaDB(t).Addr))
	execute(t, db, "INSERT INTO stet_schema (version) VALUES (1000)")
	if err := sqlstore.Migrate(t.Context(), db, sqlstore.MySQL); !errors.Is(err, sqlstore.ErrSchema) {
		t.Errorf("Migrate: %v", err)
	}
	if _, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.MySQL}); !errors.Is(err, sqlstore.ErrSchema) {
		t.Errorf("Open: %v", err)
	}
}

// The printed script makes the same schema as Migrate.
func TestPrintedSchema(t *testing.T) {
	addr := testserver.MariaDB(t).Addr
	dump := func(db *sql.DB) string {
		var all []string
		for _, table := range []string{"stet_schema", "stet_records", "stet_history"} {
			var name, text string
			if err := db.QueryRow("SHOW CREATE TABLE "+table).Scan(&name, &text); err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
		var view string
		if err := db.QueryRow("SELECT REPLACE(VIEW_DEFINITION, DATABASE(), '') FROM information_schema.VIEWS WHERE TABLE_SCHEMA = DATABASE()").Scan(&view); err != nil {
			t.Fatal(err)
		}
		return strings.Join(append(all, view), "\n")
	}
	byHand := connect(t, fresh(t, addr)+"?multiStatements=true")
	if _, err := byHand.ExecContext(context.Background(), sqlstore.MySQL.SQL(0)); err != nil {
		t.Fatal(err)
	}
	if got, want := dump(byHand), dump(migrated(t, fresh(t, addr))); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if have, want, err := sqlstore.Status(t.Context(), byHand, sqlstore.MySQL); have != want || err != nil {
		t.Errorf("version %d of %d, %v", have, want, err)
	}
}
