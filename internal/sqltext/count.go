package sqltext

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stet-dev/stet"
)

// Count implements [stet.Counter]. It stops at q.Limit, which may be above [stet.MaxLimit] here.
func (r *Reader) Count(ctx context.Context, q stet.Query) (n int, err error) {
	limit := cmp.Or(max(q.Limit, 0), stet.DefaultLimit)
	c := r.condition(&q)
	switch detail := packed(&q); {
	case q.NewerThan > 0:
		return r.countLatest(ctx, &q, limit)
	case detail.ByDetail():
		statement := fmt.Sprintf("%s FROM stet_records%s LIMIT %d", r.heads(), c.where(), limit)
		heads, _, err := r.page(ctx, statement, c.args, &q, limit, limit, place.String)
		return len(heads), err
	}
	statement := fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM stet_records%s LIMIT %d) AS few", c.where(), limit)
	err = r.Run(ctx, statement, c.args, func(s Scanner) error { return s.Scan(&n) })
	return n, err
}

// latestPage is how many of the latest rows are counted together.
const latestPage = 1000

// countLatest counts among the latest rows, and stops behind a page of rows that are all too old.
// Packed fields are compared in a second statement, which reads the rows of one page: to look for
// them beyond the latest rows would read the whole table.
func (r *Reader) countLatest(ctx context.Context, q *stet.Query, limit int) (n int, err error) {
	plain, detail := *q, packed(q)
	plain.Path, plain.Method, plain.TraceID = "", "", ""
	c, recent := r.condition(&plain), r.condition(&stet.Query{NewerThan: q.NewerThan})
	const sum = "COALESCE(SUM(CASE WHEN %s THEN 1 ELSE 0 END), 0)"
	counts := fmt.Sprintf("SELECT "+sum+", "+sum+", MIN(id) FROM (SELECT %s FROM stet_records",
		strings.Join(c.parts, " AND "), recent.parts[0], r.names([]string{"id"}, identity, head[1:], instants))
	args := append(c.args, recent.args...)
	for before := (&condition{Reader: r}); n < limit; {
		var found, young int
		var last rowID
		statement := fmt.Sprintf("%s%s ORDER BY id DESC LIMIT %d) AS latest", counts, before.where(), latestPage)
		err := r.Run(ctx, statement, slices.Concat(args, before.args), func(s Scanner) error { return s.Scan(&found, &young, &last) })
		if err != nil {
			return 0, err
		}
		if found > 0 && detail.ByDetail() {
			if found, err = r.countPage(ctx, q, before, last, limit-n); err != nil {
				return 0, err
			}
		}
		if n += found; young == 0 {
			break
		}
		before.parts, before.args = []string{"id < ?"}, []any{last.v}
	}
	return n, nil
}

// countPage counts, up to limit, what q selects of the page that begins with before and ends with
// last. It goes by the rows: no index of another column serves better.
func (r *Reader) countPage(ctx context.Context, q *stet.Query, before *condition, last rowID, limit int) (int, error) {
	c := &condition{Reader: r, parts: slices.Clone(before.parts), args: slices.Clone(before.args)}
	if r.kind == sqlite {
		c.by = &stet.Query{}
	}
	c.choose(q).and("id >= ?", last.v)
	rows, _ := r.rows(nil)
	statement := fmt.Sprintf("%s FROM %s%s ORDER BY id DESC LIMIT %d", r.heads(), rows, c.where(), latestPage)
	heads, _, err := r.page(ctx, statement, c.args, q, limit, latestPage, place.String)
	return len(heads), err
}
