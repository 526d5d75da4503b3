package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stet-dev/stet/internal/integration/paging"
	"github.com/stet-dev/stet/internal/sqltext"
)

func TestAPageLooksThroughSoManyRows(t *testing.T) { // D04
	s, db := open(t)
	first := create(t, s, "first")
	columns := strings.Fields("scope version schema tag state status flags route cause downstream_key downstream_id due_at updated_at created_at head body")
	list := "`" + strings.Join(columns, "`, `") + "`"
	for n := 1; n <= 2*sqltext.Look; n *= 2 { // each doubles what is there
		execute(t, db, fmt.Sprintf("INSERT INTO stet_records (`key`, `id`, %[1]s) SELECT UUID(), UNHEX(REPLACE(UUID(), '-', '')), %[1]s FROM stet_records LIMIT %[2]d",
			list, min(n, 2*sqltext.Look+1-n)))
	}
	paging.Check(t, s, first, 2*sqltext.Look+1, sqltext.Look)
}
