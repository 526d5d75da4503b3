package sqlstore

import (
	"context"
	"strconv"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// History pages through the changes that had a note and what was appended, newest first.
func (s *mysql) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	changes, next, err := historyMySQL(ctx, s.db, q)
	return changes, next, wrap("history", err)
}

// Append adds an entry that tells of no change.
func (s *mysql) Append(ctx context.Context, c stet.Change) error {
	return wrap("append", s.writes.with(ctx, func(l *lane) error { return appendMySQL(ctx, l, &c) }))
}

func (b boundMySQL) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	changes, next, err := historyMySQL(ctx, b.tx, q)
	return changes, next, wrap("history", err)
}

func (b boundMySQL) Append(ctx context.Context, c stet.Change) error {
	return wrap("append", appendMySQL(ctx, b.tx, &c))
}

func appendMySQL(ctx context.Context, c querier, change *stet.Change) error {
	q, err := sqltext.MySQLAppend(change)
	if err == nil {
		_, _, err = exec(ctx, c, q)
	}
	return err
}

func historyMySQL(ctx context.Context, c querier, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	text, where := new(sqltext.MySQL).Add(sqltext.MySQLHistory), " WHERE "
	switch {
	case q.ID != stet.ID{}:
		text.Add(where).Whose(q.ID)
	case q.Tag != "":
		text.Add(where + "`tag_sum` = CRC32(").Value(q.Tag).Add(") AND `tag` = ").Value(q.Tag)
	case q.Who != "":
		text.Add(where + "`who_sum` = CRC32(").Value(q.Who).Add(") AND `who` = ").Value(q.Who)
	case q.Scope != "":
		text.Add(where + "`scope` = ").Value(string(q.Scope))
	default:
		where = ""
	}
	if q.After != "" {
		after, err := strconv.ParseInt(q.After, 10, 64)
		if err != nil {
			return nil, "", errCursor
		}
		and := " AND "
		if where == "" {
			and = " WHERE "
		}
		text.Add(and + "`id` < ").Int(after)
	}
	page := sqltext.NewHistoryPage(q)
	text.Add(" ORDER BY `id` DESC LIMIT ").Int(int64(page.Rows()))
	rows, err := c.QueryContext(ctx, string(text.Text), text.Args...)
	if err != nil {
		return nil, "", fault(err)
	}
	defer rows.Close()
	for more := true; more && rows.Next(); {
		var row sqltext.ChangeRow
		if rows.Scan(row.Dest()...) != nil {
			return nil, "", errColumn
		}
		change, err := row.Change()
		if err != nil {
			return nil, "", err
		}
		more = page.Add(row.ID, change)
	}
	if err := rows.Err(); err != nil {
		return nil, "", fault(err)
	}
	return page.Changes, page.Next, nil
}
