package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Due pages through the Heads whose DueAt has passed, earliest first, and by row number where that is the same instant. The
// cursor is an instant and a row number, and holds nothing of keys. Records that cannot be read are left out.
func (s *Store) Due(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	if err = s.calls.enter(); err == nil {
		defer s.calls.leave()
		heads, next, err = due(ctx, s.pool, q)
	}
	return heads, next, s.wrap("due", err)
}

// place is where a record stands among those that are due. The zero place is before all of them.
type place struct{ due, id int64 }

func (p place) String() string { return fmt.Sprintf("%d.%d", p.due, p.id) }

func parsePlace(cursor string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	due, id, _ := strings.Cut(cursor, ".")
	if p.due, err = strconv.ParseInt(due, 10, 64); err == nil {
		p.id, err = strconv.ParseInt(id, 10, 64)
	}
	if err != nil {
		return p, errCursor
	}
	return p, nil
}

// due walks the index of each state from the cursor on, and merges: whose records are not asked for are not passed over one by
// one, nor is what earlier pages held. It locks nothing and waits for nobody who does.
//
// The server chooses its plan by statistics, which know nothing of what has just piled up: by them a backlog of a million is a handful
// of rows, to be read and sorted all together for the first hundred. Hence the second LIMIT of a walk. It cuts nothing off, but its
// number is one that the planner cannot see; it then expects a tenth of the rows to be wanted, and walks in order.
func due(ctx context.Context, pool Querier, q stet.Query) (heads []stet.Head, next string, err error) {
	from, err := parsePlace(q.After)
	if err != nil {
		return nil, "", err
	}
	c := &condition{}
	limit := q.Bound()
	most := strconv.Itoa(limit + 1) // one more tells that there is another page
	var walks []string
	for _, st := range statesOf(&q) {
		q.States = []stet.State{st}
		c.parts = nil
		c.choose(&q)
		c.and("due_at <= (SELECT now FROM t)")
		if q.After != "" {
			c.and("(due_at, id) > (?::bigint, ?::bigint)", from.due, from.id)
		}
		walks = append(walks, "(SELECT s.* FROM (SELECT s.* FROM stet_records s"+c.where()+
			" ORDER BY due_at, id LIMIT "+most+") s LIMIT (SELECT "+most+"))")
	}
	sql := "WITH t AS MATERIALIZED (SELECT " + sqltext.PostgresNow + " AS now) SELECT s.id, s.due_at, t.now, " + sqltext.PostgresHead +
		" FROM t, (" + strings.Join(walks, " UNION ALL ") + ") s ORDER BY s.due_at, s.id LIMIT " + most
	var last place
	seen := 0
	err = each(ctx, pool, sql, c.args, func(rows Rows) error {
		row := sqltext.Row{Unstamped: true}
		var at place
		var now int64
		if rows.Scan(append([]any{&at.id, &at.due, &now}, row.Dest()...)...) != nil {
			return errColumn
		}
		if seen++; seen > limit {
			next = last.String()
			return nil
		}
		last = at
		if h, err := headOf(&row, now); err == nil {
			heads = append(heads, h)
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return heads, next, nil
}

// statesOf are the states that q asks for, each once.
func statesOf(q *stet.Query) []stet.State {
	if len(q.States) == 0 {
		return []stet.State{stet.Running, stet.Completed, stet.Retryable, stet.Unknown, stet.Expired}
	}
	return slices.Compact(slices.Sorted(slices.Values(q.States)))
}
