package mysql

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/usable"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A filled database of an earlier schema is brought up to date, and used: what was done is
// replayed, what ran can end, and the history and the outbox are there (S12). A dump of each schema
// that was released is to be added to testdata, and none is to be made again.
func TestFilledDatabasesOfEarlierSchemas(t *testing.T) {
	for file, version := range map[string]int{"testdata/schema3.sql": 3} {
		t.Run(file, func(t *testing.T) {
			dump, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dsn := fresh(t, testserver.MariaDB(t).Addr)
			if _, err := connect(t, dsn+"?multiStatements=true").ExecContext(context.Background(), string(dump)); err != nil {
				t.Fatal(err)
			}
			db := connect(t, dsn)
			if have, want, err := sqlstore.Status(t.Context(), db, sqlstore.MySQL); have != version || want <= have || err != nil {
				t.Fatalf("version %d of %d, %v", have, want, err)
			}
			if _, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.MySQL}); !errors.Is(err, sqlstore.ErrSchema) ||
				!strings.Contains(err.Error(), "stet migrate up") {
				t.Fatalf("Open before: %v", err)
			}
			used(t, over(t, migrated(t, dsn)))
			var pending int
			if err := db.QueryRow("SELECT COUNT(*) FROM stet_outbox WHERE state = 'pending' AND payload = 'hello'").Scan(&pending); err != nil || pending != 1 {
				t.Errorf("%d messages are in the outbox, %v", pending, err)
			}
		})
	}
}

func used(t *testing.T, s stet.Store) {
	for _, state := range []stet.State{stet.Running, stet.Completed, stet.Retryable, stet.Unknown, stet.Expired} {
		r := named("v3-" + state.String())
		got, err := s.Create(t.Context(), r)
		if !errors.Is(err, stet.ErrExists) || got.State != state || got.Route != r.Route {
			t.Errorf("%v: %v is there, %v", state, got.State, err)
		}
		switch state {
		case stet.Completed:
			if string(got.Response.Body) != "the answer" || got.Status != 201 {
				t.Errorf("the answer is %d %q", got.Status, got.Response.Body)
			}
		case stet.Running:
			h, body := completed(got, "it ends")
			if _, err := s.Replace(t.Context(), got.Version, h, body); err != nil {
				t.Error(err)
			}
		case stet.Expired:
			if err := s.Delete(t.Context(), got.ID, got.Version); err != nil {
				t.Error(err)
			}
		}
	}
	lister, _ := stet.As[stet.Lister](s)
	if heads, _, err := lister.List(t.Context(), stet.Query{}); len(heads) != 4 || err != nil {
		t.Errorf("%d are listed, %v", len(heads), err)
	}
	historian, _ := stet.As[stet.Historian](s)
	if changes, _, err := historian.History(t.Context(), stet.HistoryQuery{}); len(changes) != 4 || err != nil {
		t.Errorf("%d changes, %v", len(changes), err)
	}
	if err := usable.Prove(t.Context(), s, true); err != nil {
		t.Error(err)
	}
}
