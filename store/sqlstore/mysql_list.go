package sqlstore

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Due returns the Heads whose DueAt has passed, earliest first. Records that cannot be read are left out.
func (s *mysql) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := dueMySQL(ctx, s.db, q)
	return heads, next, wrap("due", err)
}

// dueMySQL walks the index once for each state: whose records are not asked for are not passed over one by one.
func dueMySQL(ctx context.Context, c querier, q stet.Query) (heads []stet.Head, next string, err error) {
	states, limit := q.States, limit(&q)
	if len(states) == 0 {
		states = []stet.State{stet.Running, stet.Completed, stet.Retryable, stet.Unknown, stet.Expired}
	}
	for _, st := range slices.Compact(slices.Sorted(slices.Values(states))) {
		q.States = []stet.State{st}
		of, err := dueInState(ctx, c, &q, limit)
		if err != nil {
			return nil, "", err
		}
		heads = append(heads, of...)
	}
	slices.SortStableFunc(heads, func(a, b stet.Head) int { return a.DueAt.Compare(b.DueAt) })
	return heads[:min(len(heads), limit)], "", nil
}

// dueInState asks again where records could not be read: they shall not hide those that fell due after them.
func dueInState(ctx context.Context, c querier, q *stet.Query, limit int) (heads []stet.Head, err error) {
	for offset, seen := 0, limit; seen == limit && len(heads) < limit; offset += seen {
		text := new(sqltext.MySQL).Add(sqltext.MySQLHeads + " FORCE INDEX (stet_records_due)")
		selected(text, q).Add(" AND `due_at` <= " + sqltext.MySQLNow + " ORDER BY `due_at` LIMIT ").Int(int64(limit)).Add(" OFFSET ").Int(int64(offset))
		seen = 0
		err := eachMySQL(ctx, c, text, (*sqltext.Row).Dest, func(row *sqltext.Row, now int64) {
			seen++
			if h, err := row.Head(now); err == nil && len(heads) < limit {
				heads = append(heads, h)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return heads, nil
}

// List pages through records, newest first. The cursor tells nothing of keys. Records that cannot be read are left out.
func (s *mysql) List(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	limit := limit(&q)
	text := selected(new(sqltext.MySQL).Add(sqltext.MySQLListed), &q)
	if q.After != "" {
		after, err := hex.DecodeString(q.After)
		if err != nil || len(after) != 16 {
			return nil, "", wrap("list", errCursor)
		}
		text.Add(" AND `id` < ").Bytes(after)
	}
	text.Add(" ORDER BY `id` DESC LIMIT ").Int(int64(limit) + 1)
	var id, last []byte
	seen := 0
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
	return heads, next, wrap("list", err)
}

// Count counts records, and stops at q.Limit, which may be above [stet.MaxLimit] here.
func (s *mysql) Count(ctx context.Context, q stet.Query) (n int, err error) {
	text := selected(new(sqltext.MySQL).Add("SELECT COUNT(*) FROM (SELECT 1 FROM stet_records"), &q)
	text.Add(" LIMIT ").Int(int64(cmp.Or(max(q.Limit, 0), stet.DefaultLimit))).Add(") AS some")
	err = s.db.QueryRowContext(ctx, string(text.Text), text.Args...).Scan(&n)
	return n, wrap("count", fault(err))
}

// Find finds the records whose DownstreamKey or DownstreamID is name.
func (s *mysql) Find(ctx context.Context, name string) (heads []stet.Head, err error) {
	if name == "" {
		return nil, nil
	}
	found := map[stet.ID]bool{}
	for _, column := range []string{"downstream_key", "downstream_id"} {
		text := new(sqltext.MySQL).Add(sqltext.MySQLHeads + " WHERE `" + column + "` = ").Bytes([]byte(name)).Add(" LIMIT ").Int(stet.DefaultLimit)
		err := eachMySQL(ctx, s.db, text, (*sqltext.Row).Dest, func(row *sqltext.Row, now int64) {
			h, err := row.Head(now)
			if err == nil && !found[h.ID] && len(heads) < stet.DefaultLimit {
				found[h.ID], heads = true, append(heads, h)
			}
		})
		if err != nil {
			return nil, wrap("find", err)
		}
	}
	return heads, nil
}

// selected says in SQL what q selects.
func selected(text *sqltext.MySQL, q *stet.Query) *sqltext.MySQL {
	text.Add(" WHERE TRUE")
	for i, st := range q.States {
		text.Add([]string{" AND `state` IN (", ", "}[min(i, 1)]).Bytes([]byte(st.String()))
	}
	if len(q.States) > 0 {
		text.Add(")")
	}
	if q.Scope != "" {
		text.Add(" AND `scope` = ").Bytes([]byte(q.Scope))
	}
	if q.Route != "" {
		text.Add(" AND `route` = ").Bytes([]byte(q.Route))
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
	return text
}
