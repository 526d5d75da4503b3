package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Due pages through the Heads whose DueAt has passed, earliest first, and in the order of their rows where that is the same
// instant. Records that cannot be read are left out. The cursor is an instant and a row number, and holds nothing of keys.
func (s *sqlite) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := due(ctx, s.db, s.clock, q)
	return heads, next, wrap("due", err)
}

func due(ctx context.Context, from source, clk *clock, q stet.Query) (heads []stet.Head, next string, err error) {
	now, states := clk.micros(), q.States
	var after spot
	if q.After != "" {
		if after, err = parseSpot(q.After); err != nil {
			return nil, "", err
		}
	}
	if len(states) == 0 {
		states = []stet.State{stet.Running, stet.Completed, stet.Retryable, stet.Unknown, stet.Expired}
	}
	// One walk of the index per state, merged: whose records are not asked for are not passed over one by one.
	var walks []string
	var args []any
	for _, st := range slices.Compact(slices.Sorted(slices.Values(states))) {
		q.States = []stet.State{st}
		c := new(condition).choose(&q, now)
		c.and(sqltext.SQLiteDue, now)
		if q.After != "" {
			c.and(sqltext.SQLiteDueAfter, after.due.Int64, after.id)
		}
		walks = append(walks, sqltext.SQLiteSelectHeads+c.where())
		args = append(args, c.args...)
	}
	n, looked := q.Bound(), 0
	err = each(ctx, from, clk, strings.Join(walks, " UNION ALL ")+" ORDER BY due_at, id", args, func(at spot, h *stet.Head) bool {
		if len(heads) == n || looked == stet.MaxLimit { // there is one more
			next = after.String()
			return false
		}
		if after, looked = at, looked+1; h != nil {
			heads = append(heads, *h)
		}
		return true
	})
	return heads, next, err
}

// spot is where a row stands: by when it falls due, and by its number.
type spot struct {
	due sql.NullInt64
	id  int64
}

func (s spot) String() string { return fmt.Sprintf("%d.%d", s.due.Int64, s.id) }

// parseSpot reads a cursor of Due.
func parseSpot(cursor string) (s spot, err error) {
	due, id, _ := strings.Cut(cursor, ".")
	if s.due.Int64, err = strconv.ParseInt(due, 10, 64); err == nil {
		s.id, err = strconv.ParseInt(id, 10, 64)
	}
	if err != nil {
		return spot{}, errCursor
	}
	return s, nil
}

// List pages through records, newest first. The cursor is a row number and holds nothing of keys. Records that cannot be
// read are left out.
func (s *sqlite) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := s.list(ctx, q)
	return heads, next, wrap("list", err)
}

func (s *sqlite) list(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	by, err := sqltext.Leading(&q, func(part stet.Query) (int, error) { return s.count(ctx, part) })
	if err != nil {
		return nil, "", err
	}
	c := &condition{by: by}
	if by == nil {
		c.by = &stet.Query{} // by the rows, and no index
	}
	c.choose(&q, s.clock.micros())
	later, order := sqltext.Order(&q)
	from := &condition{}
	if q.After != "" {
		after, err := strconv.ParseInt(q.After, 10, 64)
		if err != nil {
			return nil, "", errCursor
		}
		from.and("id "+later+" ?", after)
		c.and("id "+later+" ?", after)
	}
	if by == nil && sqltext.Sifts(&q) { // up to there the page looks
		var end int64
		query := "SELECT id FROM stet_records" + from.where() + " ORDER BY id " + order + " LIMIT 1 OFFSET ?"
		switch err := s.db.QueryRowContext(ctx, query, append(from.args, sqltext.Look-1)...).Scan(&end); {
		case err == nil:
			next = strconv.FormatInt(end, 10)
			c.and("NOT id "+later+" ?", end)
		case !errors.Is(err, sql.ErrNoRows):
			return nil, "", err
		}
	}
	limit, seen, last := q.Bound(), 0, int64(0)
	query := sqltext.SQLiteSelectHeads + c.where() + " ORDER BY id " + order + " LIMIT ?"
	err = each(ctx, s.db, s.clock, query, append(c.args, limit+1), func(at spot, h *stet.Head) bool {
		if seen++; seen > limit {
			next = strconv.FormatInt(last, 10)
			return false
		}
		if last = at.id; h != nil {
			heads = append(heads, *h)
		}
		return true
	})
	if err != nil {
		return nil, "", err
	}
	return heads, next, nil
}

var errCursor = errors.New("that is no cursor of this store")

// Count counts records, and stops at q.Limit, which may be above [stet.MaxLimit] here.
func (s *sqlite) Count(ctx context.Context, q stet.Query) (int, error) {
	n, err := s.count(ctx, q)
	return n, wrap("count", err)
}

func (s *sqlite) count(ctx context.Context, q stet.Query) (n int, err error) {
	now := s.clock.micros()
	c := new(condition).choose(&q, now)
	if q.NewerThan > 0 {
		return s.countLatest(ctx, &q, c, now-q.NewerThan.Microseconds())
	}
	query := "SELECT count(*) FROM (SELECT 1 FROM stet_records" + c.where() + " LIMIT ?)"
	err = s.db.QueryRowContext(ctx, query, append(c.args, cmp.Or(max(q.Limit, 0), stet.DefaultLimit))...).Scan(&n)
	return n, err
}

// latestPage is how many of the latest rows are looked at together to count what was created after an instant.
const latestPage = 1000

// countLatest counts among the latest rows: behind a page of rows that are all too old nobody looks.
func (s *sqlite) countLatest(ctx context.Context, q *stet.Query, c *condition, since int64) (n int, err error) {
	query := "SELECT count(*) FILTER (WHERE " + strings.Join(c.parts, " AND ") + "), count(*) FILTER (WHERE created_at > ?), min(id)" +
		" FROM (SELECT * FROM stet_records WHERE id < ? ORDER BY id DESC LIMIT ?)"
	for before := int64(math.MaxInt64); n < cmp.Or(max(q.Limit, 0), stet.DefaultLimit); {
		var found, recent int
		var last sql.NullInt64
		if err := s.db.QueryRowContext(ctx, query, append(slices.Clone(c.args), since, before, latestPage)...).Scan(&found, &recent, &last); err != nil {
			return 0, err
		}
		if n += found; recent == 0 {
			break
		}
		before = last.Int64
	}
	return n, nil
}

// source is the pool, or a transaction.
type source interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each reads heads until visit has had enough; of a record that cannot be read it gets nil.
func each(ctx context.Context, from source, clk *clock, query string, args []any, visit func(at spot, h *stet.Head) bool) error {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var at spot
		var row sqltext.Row
		var head *stet.Head
		if rows.Scan(append([]any{&at.id, &at.due}, row.Dest()...)...) == nil {
			if h, err := row.Head(clk.micros()); err == nil {
				head = &h
			}
		}
		if !visit(at, head) {
			return nil
		}
	}
	return rows.Err()
}

// condition is a WHERE clause in the making.
type condition struct {
	parts []string
	args  []any
	by    *stet.Query // whose columns' indexes serve; nil: any
}

func (c *condition) and(part string, args ...any) {
	c.parts, c.args = append(c.parts, part), append(c.args, args...)
}

func (c *condition) where() string {
	if len(c.parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.parts, " AND ")
}

// column hides a column from the planner where its index is not the one to go by: it has no statistics to choose with.
func (c *condition) column(name string, leads bool) string {
	if c.by == nil || leads {
		return name
	}
	return "+" + name
}

// choose adds what q selects.
func (c *condition) choose(q *stet.Query, now int64) *condition {
	by := c.by
	if by == nil {
		by = q
	}
	state := c.column("state", len(by.States) > 0)
	if n := len(q.States); n > 0 {
		words := make([]any, n)
		for i, st := range q.States {
			words[i] = st.String()
		}
		c.and(state+" IN (?"+strings.Repeat(", ?", n-1)+")", words...)
	}
	if q.Scope != "" {
		c.and(c.column("scope", by.Scope != "")+" = ?", text(string(q.Scope)))
	}
	if q.Key != "" {
		c.and(c.column("key", by.Key != "")+" = ?", text(string(q.Key)))
	}
	if q.Failed {
		c.and(c.column("state", by.Failed) + " = 'completed' AND status >= 500")
	}
	if q.Succeeded {
		c.and(state + " = 'completed' AND status < 500")
	}
	if q.Escalated {
		c.and(state + " = 'unknown' AND escalated")
	}
	if q.OlderThan > 0 {
		c.and("created_at <= ?", now-q.OlderThan.Microseconds())
	}
	if q.NewerThan > 0 {
		c.and("created_at > ?", now-q.NewerThan.Microseconds())
	}
	if q.Tag != "" {
		c.and(c.column("tag", by.Tag != "")+" = ?", sqltext.Tag(q.Tag)) // nothing is equal to NULL
	}
	for _, exactly := range [...]struct{ column, value string }{{"route", q.Route}, {"path", q.Path}, {"method", q.Method}, {"cause", q.Cause}, {"trace_id", q.TraceID}} {
		if exactly.value != "" {
			c.and(exactly.column+" = ?", text(exactly.value))
		}
	}
	return c
}
