package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// List pages through records, newest first. The cursor is a row number and holds nothing of keys. Records that cannot be read
// are left out.
func (s *Store) List(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	if err = s.calls.enter(); err == nil {
		defer s.calls.leave()
		heads, next, err = s.list(ctx, q)
	}
	return heads, next, s.wrap("list", err)
}

var errCursor = errors.New("that is no cursor of this store")

func (s *Store) list(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	by, err := sqltext.Leading(&q, func(part stet.Query) (int, error) { return s.count(ctx, part) })
	if err != nil {
		return nil, "", err
	}
	c, from := &condition{}, &condition{}
	later, order := sqltext.Order(&q)
	if err := errors.Join(from.after(q.After, later), c.after(q.After, later)); err != nil {
		return nil, "", err
	}
	rows := "stet_records s"
	switch {
	case by != nil: // few: they are read first, whatever the planner believes of a walk in order
		few := &condition{args: c.args}
		few.choose(by)
		c.args, rows = few.args, "(SELECT * FROM stet_records"+few.where()+" OFFSET 0) s"
	case sqltext.Sifts(&q): // up to there the page looks
		sql := fmt.Sprintf("SELECT id FROM stet_records%s ORDER BY id %s OFFSET %d LIMIT 1", from.where(), order, sqltext.Look-1)
		err := each(ctx, s.pool, sql, from.args, func(rows Rows) error {
			var end int64
			if rows.Scan(&end) != nil {
				return errColumn
			}
			next = strconv.FormatInt(end, 10)
			c.and("NOT id "+later+" ?", end)
			return nil
		})
		if err != nil {
			return nil, "", err
		}
	}
	c.choose(&q)
	limit, seen, last := q.Bound(), 0, int64(0)
	sql := fmt.Sprintf("SELECT s.id, %s, %s FROM %s%s ORDER BY id %s LIMIT %d",
		sqltext.PostgresNow, sqltext.PostgresHead, rows, c.where(), order, limit+1)
	err = eachHead(ctx, s.pool, sql, c.args, func(id int64, h *stet.Head) {
		if seen++; seen > limit {
			next = strconv.FormatInt(last, 10)
			return
		}
		if last = id; h != nil {
			heads = append(heads, *h)
		}
	})
	if err != nil {
		return nil, "", err
	}
	return heads, next, nil
}

// Count counts records, and stops at q.Limit, which may be above [stet.MaxLimit] here.
func (s *Store) Count(ctx context.Context, q stet.Query) (n int, err error) {
	if err = s.calls.enter(); err == nil {
		defer s.calls.leave()
		n, err = s.count(ctx, q)
	}
	return n, s.wrap("count", err)
}

func (s *Store) count(ctx context.Context, q stet.Query) (n int, err error) {
	c := &condition{}
	c.choose(&q)
	if q.NewerThan > 0 {
		return s.countLatest(ctx, &q, c)
	}
	sql := fmt.Sprintf("SELECT count(*) FROM (SELECT FROM stet_records s%s LIMIT %d) s",
		c.where(), cmp.Or(max(q.Limit, 0), stet.DefaultLimit))
	err = each(ctx, s.pool, sql, c.args, func(rows Rows) error { return rows.Scan(&n) })
	return n, err
}

// latestPage is how many of the latest rows are looked at together to count what was created after an instant.
const latestPage = 1000

// countLatest counts among the latest rows: behind a page of rows that are all too old nobody looks.
func (s *Store) countLatest(ctx context.Context, q *stet.Query, c *condition) (n int, err error) {
	matching := strings.Join(c.parts, " AND ")
	since := &condition{args: c.args}
	since.choose(&stet.Query{NewerThan: q.NewerThan})
	args := append(since.args, int64(math.MaxInt64))
	sql := fmt.Sprintf("SELECT count(*) FILTER (WHERE %s), count(*) FILTER (WHERE %s), coalesce(min(id), 0)"+
		" FROM (SELECT * FROM stet_records WHERE id < $%d ORDER BY id DESC LIMIT %d) s", matching, since.parts[0], len(args), latestPage)
	for n < cmp.Or(max(q.Limit, 0), stet.DefaultLimit) {
		var found, recent int
		var last int64
		if err := each(ctx, s.pool, sql, args, func(rows Rows) error { return rows.Scan(&found, &recent, &last) }); err != nil {
			return 0, err
		}
		if n += found; recent == 0 {
			break
		}
		args[len(args)-1] = last
	}
	return n, nil
}

// Find returns the records that have a downstream name, the newest first. Records that cannot be read are left out.
func (s *Store) Find(ctx context.Context, name string) (heads []stet.Head, err error) {
	if err = s.calls.enter(); err != nil || name == "" { // "" is no name
		if err == nil {
			s.calls.leave()
		}
		return nil, s.wrap("find", err)
	}
	defer s.calls.leave()
	sql := fmt.Sprintf("SELECT s.id, %s, %s FROM stet_records s WHERE (downstream_key = $1 AND downstream_key <> '')"+
		" OR (downstream_id = $1 AND downstream_id <> '') ORDER BY id DESC LIMIT %d",
		sqltext.PostgresNow, sqltext.PostgresHead, stet.DefaultLimit)
	err = eachHead(ctx, s.pool, sql, []any{sqltext.PostgresEscape(name)}, func(_ int64, h *stet.Head) {
		if h != nil {
			heads = append(heads, *h)
		}
	})
	return heads, s.wrap("find", err)
}

// eachHead reads heads; of a record that cannot be read visit gets nil.
func eachHead(ctx context.Context, q Querier, sql string, args []any, visit func(id int64, h *stet.Head)) error {
	return each(ctx, q, sql, args, func(rows Rows) error {
		row := sqltext.Row{Unstamped: true}
		var id, now int64
		if rows.Scan(append([]any{&id, &now}, row.Dest()...)...) != nil {
			return errColumn
		}
		if h, err := headOf(&row, now); err == nil {
			visit(id, &h)
		} else {
			visit(id, nil)
		}
		return nil
	})
}

// condition is a WHERE clause in the making.
type condition struct {
	parts []string
	args  []any
}

// and adds a part; each ? in it stands for an argument.
func (c *condition) and(part string, args ...any) {
	for _, a := range args {
		c.args = append(c.args, a)
		part = strings.Replace(part, "?", "$"+strconv.Itoa(len(c.args)), 1)
	}
	c.parts = append(c.parts, part)
}

func (c *condition) where() string {
	if len(c.parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.parts, " AND ")
}

// after adds where a page begins.
func (c *condition) after(cursor, later string) error {
	if cursor == "" {
		return nil
	}
	id, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil {
		return errCursor
	}
	c.and("id "+later+" ?", id)
	return nil
}

// choose adds what q selects. States are words of this package's own, and stand in the text: the planner then sees which of
// the partial indexes serve.
func (c *condition) choose(q *stet.Query) {
	if len(q.States) > 0 {
		var words []string
		for _, st := range q.States {
			words = append(words, "'"+st.String()+"'")
		}
		if len(words) == 1 {
			c.and("state = " + words[0])
		} else {
			c.and("state IN (" + strings.Join(words, ", ") + ")")
		}
	}
	if q.Scope != "" {
		c.and("scope = ?", sqltext.PostgresEscape(string(q.Scope)))
	}
	if q.Tag != "" {
		c.and("tag = ?", sqltext.Tag(q.Tag)) // nothing is equal to NULL
	}
	for _, exactly := range [...]struct{ column, value string }{{"key", string(q.Key)}, {"route", q.Route}, {"path", q.Path}, {"method", q.Method},
		{"cause", q.Cause}, {"trace_id", q.TraceID}} {
		if exactly.value != "" {
			c.and(exactly.column+" = ?", sqltext.PostgresEscape(exactly.value))
		}
	}
	if q.Escalated {
		c.and("state = 'unknown' AND escalated")
	}
	if q.Failed {
		c.and("state = 'completed' AND status >= 500")
	}
	if q.Succeeded {
		c.and("state = 'completed' AND status < 500")
	}
	if q.OlderThan > 0 {
		c.and("created_at <= "+sqltext.PostgresNow+" - ?::bigint", q.OlderThan.Microseconds())
	}
	if q.NewerThan > 0 {
		c.and("created_at > "+sqltext.PostgresNow+" - ?::bigint", q.NewerThan.Microseconds())
	}
}
