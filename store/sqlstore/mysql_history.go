package sqlstore

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// History pages through the changes that had a note, newest first.
func (s *mysql) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	text, where := new(sqltext.MySQL).Add(sqltext.MySQLHistory), " WHERE "
	if q.ID != (stet.ID{}) {
		text.Add(where).Whose(q.ID)
		where = " AND "
	}
	if q.After != "" {
		after, err := strconv.ParseInt(q.After, 10, 64)
		if err != nil {
			return nil, "", wrap("history", errCursor)
		}
		text.Add(where + "`id` < ").Int(after)
	}
	limit := q.Bound()
	text.Add(" ORDER BY `id` DESC LIMIT ").Int(int64(limit) + 1)
	rows, err := s.db.QueryContext(ctx, string(text.Text), text.Args...)
	if err != nil {
		return nil, "", wrap("history", fault(err))
	}
	defer rows.Close()
	var last int64
	for rows.Next() {
		var c stet.Change
		var id, at int64
		var was, became string
		if rows.Scan(&id, &c.ID.Scope, &c.ID.Key, &was, &became, &c.Attempt, &at, &c.Note.Who, &c.Note.Why, &c.Note.Evidence, &c.Note.Notice) != nil {
			return nil, "", wrap("history", errColumn)
		}
		if len(changes) == limit {
			next = strconv.FormatInt(last, 10)
			break
		}
		if c.From, err = stet.ParseState(was); err == nil {
			c.To, err = stet.ParseState(became)
		}
		if err != nil {
			return nil, "", wrap("history", errColumn)
		}
		c.At, last = time.UnixMicro(at).UTC(), id
		changes = append(changes, c)
	}
	return changes, next, wrap("history", fault(rows.Err()))
}

// Append implements [stet.Historian].
func (s *mysql) Append(ctx context.Context, c stet.Change) error { return errors.ErrUnsupported }
