package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Due pages through the Heads whose DueAt has passed, earliest first, and by `id` where that is the same instant. The cursor
// tells nothing of keys. Records that cannot be read are left out.
func (s *mysql) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := dueMySQL(ctx, s.db, q)
	return heads, next, wrap("due", err)
}

// place is where a record stands among those that are due. A nil id is before all of them.
type place struct {
	due int64
	id  []byte
}

func (p place) String() string { return strconv.FormatInt(p.due, 10) + "." + hex.EncodeToString(p.id) }

func parsePlace(cursor string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	due, id, _ := strings.Cut(cursor, ".")
	if p.due, err = strconv.ParseInt(due, 10, 64); err == nil {
		p.id, err = hex.DecodeString(id)
	}
	if err != nil || len(p.id) != 16 {
		return p, errCursor
	}
	return p, nil
}

// dueMySQL reads a page of what is due. Where several walks lead to it one statement makes them all, so that a record that changes
// its state meanwhile is seen once. It locks nothing, and waits for nobody who does.
func dueMySQL(ctx context.Context, c querier, q stet.Query) (heads []stet.Head, next string, err error) {
	from, err := parsePlace(q.After)
	if err != nil {
		return nil, "", err
	}
	limit := q.Bound()
	var here, last place
	seen := 0
	dest := func(row *sqltext.Row) []any { return append([]any{&here.id, &here.due}, row.Dest()...) }
	err = eachMySQL(ctx, c, dueText(q, from), dest, func(row *sqltext.Row, now int64) {
		if seen++; seen > limit {
			next = last.String()
			return
		}
		last = here
		if h, err := row.Head(now); err == nil {
			heads = append(heads, h)
		}
	})
	if err != nil {
		return nil, "", err
	}
	return heads, next, nil
}

// dueText walks the index of each state from a place on: whose records are not asked for are not passed over one by one, nor is
// what earlier pages held.
//
// To the server a comparison of pairs is no range of an index, and neither is one that begins within an instant and ends after it:
// what is left of the instant, which may be a million records, is a walk of its own.
func dueText(q stet.Query, from place) *sqltext.MySQL {
	states := q.States
	if len(states) == 0 {
		states = []stet.State{stet.Running, stet.Completed, stet.Retryable, stet.Unknown, stet.Expired}
	}
	states = slices.Compact(slices.Sorted(slices.Values(states)))
	text := new(sqltext.MySQL)
	walks := []func(){func() {}}
	if from.id != nil {
		walks = []func(){
			func() { text.Add(" AND `due_at` = ").Int(from.due).Add(" AND `id` > ").Bytes(from.id) },
			func() { text.Add(" AND `due_at` > ").Int(from.due) },
		}
	}
	ordered := func() { // one more than asked for tells that there is another page
		text.Add(" ORDER BY `due_at`, `id` LIMIT ").Int(int64(q.Bound()) + 1)
	}
	several := len(states)*len(walks) > 1
	opening, closing := "", ""
	if several {
		opening, closing = "(", ")"
	}
	for _, st := range states {
		q.States = []stet.State{st}
		for _, walk := range walks {
			selected(text.Add(opening+sqltext.MySQLDue+" FORCE INDEX (stet_records_due)"), &q)
			walk()
			text.Add(" AND `due_at` <= " + sqltext.MySQLNow)
			ordered()
			text.Add(closing)
			opening = " UNION ALL ("
		}
	}
	if several {
		ordered()
	}
	return text
}

// List pages through records, newest first. The cursor tells nothing of keys. Records that cannot be read are left out.
func (s *mysql) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := s.list(ctx, q)
	return heads, next, wrap("list", err)
}

func (s *mysql) list(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	var after []byte
	if q.After != "" {
		if after, err = hex.DecodeString(q.After); err != nil || len(after) != 16 {
			return nil, "", errCursor
		}
	}
	by, err := sqltext.Leading(&q, func(part stet.Query) (int, error) { return s.count(ctx, part) })
	if err != nil {
		return nil, "", err
	}
	later, order := sqltext.Order(&q)
	from := func(text *sqltext.MySQL) *sqltext.MySQL {
		if after != nil {
			text.Add(" AND `id` " + later + " ").Bytes(after)
		}
		return text
	}
	text := from(selected(new(sqltext.MySQL).Add(sqltext.MySQLListed+index(by)), &q))
	if by == nil && sqltext.Sifts(&q) { // up to there the page looks
		end := from(new(sqltext.MySQL).Add("SELECT `id` FROM stet_records FORCE INDEX (stet_records_id) WHERE TRUE")).
			Add(" ORDER BY `id` " + order + " LIMIT 1 OFFSET ").Int(sqltext.Look - 1)
		var id []byte
		switch err := s.db.QueryRowContext(ctx, string(end.Text), end.Args...).Scan(&id); {
		case err == nil:
			next = hex.EncodeToString(id)
			text.Add(" AND NOT `id` " + later + " ").Bytes(id)
		case !errors.Is(err, sql.ErrNoRows):
			return nil, "", fault(err)
		}
	}
	limit, seen := q.Bound(), 0
	text.Add(" ORDER BY `id` " + order + " LIMIT ").Int(int64(limit) + 1)
	var id, last []byte
	dest := func(row *sqltext.Row) []any { return append([]any{&id}, row.Dest()...) }
	err = eachMySQL(ctx, s.db, text, dest, func(row *sqltext.Row, now int64) {
		if seen++; seen > limit {
			next = hex.EncodeToString(last)
			return
		}
		last = id
		if h, err := row.Head(now); err == nil {
			heads = append(heads, h)
		}
	})
	if err != nil {
		return nil, "", err
	}
	return heads, next, nil
}

// index is the index by which a list finds what leads it: the server would rather walk all rows in their order.
func index(by *stet.Query) string {
	name := "PRIMARY"
	switch {
	case by == nil:
		name = "stet_records_id"
	case by.Tag != "":
		name = "stet_records_tag"
	case by.Failed:
		name = "stet_records_status"
	case len(by.States) > 0:
		name = "stet_records_due"
	}
	return " FORCE INDEX (" + name + ")"
}

// Count counts records, and stops at q.Limit, which may be above [stet.MaxLimit] here.
func (s *mysql) Count(ctx context.Context, q stet.Query) (int, error) {
	n, err := s.count(ctx, q)
	return n, wrap("count", err)
}

func (s *mysql) count(ctx context.Context, q stet.Query) (n int, err error) {
	if q.NewerThan > 0 && !q.ByDetail() {
		n, err = s.countLatest(ctx, &q)
		return n, fault(err)
	}
	text := selected(new(sqltext.MySQL).Add("SELECT COUNT(*) FROM (SELECT 1 FROM stet_records"), &q)
	text.Add(" LIMIT ").Int(int64(cmp.Or(max(q.Limit, 0), stet.DefaultLimit))).Add(") AS some")
	err = s.db.QueryRowContext(ctx, string(text.Text), text.Args...).Scan(&n)
	return n, fault(err)
}

// countLatest counts among the latest rows: behind a page of rows that are all too old nobody looks.
func (s *mysql) countLatest(ctx context.Context, q *stet.Query) (n int, err error) {
	var last []byte
	for n < cmp.Or(max(q.Limit, 0), stet.DefaultLimit) {
		text := matching(new(sqltext.MySQL).Add("SELECT COALESCE(SUM("), q).Add("), 0), COALESCE(SUM(")
		matching(text, &stet.Query{NewerThan: q.NewerThan}).Add("), 0), MIN(`id`) FROM (SELECT `id`, `scope`, `state`, `status`, `created_at`")
		if q.Route != "" {
			text.Add(", `route`")
		}
		if text.Add(" FROM stet_records"); last != nil {
			text.Add(" WHERE `id` < ").Bytes(last)
		}
		text.Add(" ORDER BY `id` DESC LIMIT ").Int(latestPage).Add(") AS latest")
		var found, recent int
		if err := s.db.QueryRowContext(ctx, string(text.Text), text.Args...).Scan(&found, &recent, &last); err != nil {
			return 0, err
		}
		if n += found; recent == 0 {
			break
		}
	}
	return n, nil
}

// Find returns the records that have a downstream name, the newest first. Records that cannot be read are left out.
func (s *mysql) Find(ctx context.Context, name string) ([]stet.Head, error) {
	if name == "" {
		return nil, nil
	}
	type found struct {
		stet.Head
		order []byte
	}
	var all []found
	for _, column := range []string{"downstream_key", "downstream_id"} {
		var id []byte
		text := new(sqltext.MySQL).Add(sqltext.MySQLListed + " WHERE `" + column + "` = ").Bytes([]byte(name)).
			Add(" ORDER BY `id` DESC LIMIT ").Int(stet.DefaultLimit)
		dest := func(row *sqltext.Row) []any { return append([]any{&id}, row.Dest()...) }
		err := eachMySQL(ctx, s.db, text, dest, func(row *sqltext.Row, now int64) {
			if h, err := row.Head(now); err == nil {
				all = append(all, found{h, id})
			}
		})
		if err != nil {
			return nil, wrap("find", err)
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return bytes.Compare(b.order, a.order) })
	all = slices.CompactFunc(all, func(a, b found) bool { return a.ID == b.ID }) // one may have the name twice
	heads := make([]stet.Head, min(len(all), stet.DefaultLimit))
	for i := range heads {
		heads[i] = all[i].Head
	}
	return heads, nil
}

// selected says in SQL what q selects.
func selected(text *sqltext.MySQL, q *stet.Query) *sqltext.MySQL {
	return matching(text.Add(" WHERE "), q)
}

// matching is what q selects as an expression.
func matching(text *sqltext.MySQL, q *stet.Query) *sqltext.MySQL {
	text.Add("TRUE")
	for i, st := range q.States {
		text.Add([]string{" AND `state` IN (", ", "}[min(i, 1)]).Bytes([]byte(st.String()))
	}
	if len(q.States) > 0 {
		text.Add(")")
	}
	if q.Scope != "" {
		text.Add(" AND `scope` = ").Bytes([]byte(q.Scope))
	}
	if q.Tag != "" {
		text.Add(" AND `tag` = ").Value(sqltext.Tag(q.Tag)) // nothing is equal to NULL
	}
	for _, exactly := range [...]struct{ column, value string }{{"key", string(q.Key)}, {"route", q.Route}, {"path", q.Path}, {"method", q.Method},
		{"cause", q.Cause}, {"trace_id", q.TraceID}} {
		if exactly.value != "" {
			text.Add(" AND `" + exactly.column + "` = ").Bytes([]byte(exactly.value))
		}
	}
	if q.Escalated {
		text.Add(" AND `state` = 'unknown' AND `escalated` = 1")
	}
	if q.Failed {
		text.Add(" AND `state` = 'completed' AND `status` >= 500")
	}
	if q.Succeeded {
		text.Add(" AND `state` = 'completed' AND `status` < 500")
	}
	if q.OlderThan > 0 {
		text.Add(" AND `created_at` <= " + sqltext.MySQLNow + " - ").Int(q.OlderThan.Microseconds())
	}
	if q.NewerThan > 0 {
		text.Add(" AND `created_at` > " + sqltext.MySQLNow + " - ").Int(q.NewerThan.Microseconds())
	}
	return text
}
