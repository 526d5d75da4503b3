package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stet-dev/stet/internal/integration/paging"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/store/pgxstore"
)

func TestAPageLooksThroughSoManyRows(t *testing.T) { // D04
	s := opened(t, database(t, address(t), t.Name()), pgxstore.Config{})
	first := create(t, s, "first")
	columns := strings.Join(strings.Fields("scope schema "+strings.Join(plainHead, " ")+" due_at updated_at created_at"), ", ")
	sql := fmt.Sprintf("INSERT INTO stet_records (key, %[1]s) SELECT g::text, %[1]s FROM stet_records, generate_series(1, %[2]d) g", columns, 2*sqltext.Look)
	if _, err := s.pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	paging.Check(t, s, first, 2*sqltext.Look+1, sqltext.Look)
}
