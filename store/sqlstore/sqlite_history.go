package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// History pages through the changes that had a note, newest first. The cursor is a row number and holds nothing of keys. A row
// that cannot be read is [stet.ErrCorrupt]: a history with holes in it is no evidence.
func (s *sqlite) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	var c condition
	if q.ID != (stet.ID{}) {
		c.and("scope = ? AND key = ?", text.ID(nil, q.ID)...)
	}
	if q.After != "" {
		after, err := strconv.ParseInt(q.After, 10, 64)
		if err != nil {
			return nil, "", wrap("history", errCursor)
		}
		c.and("id < ?", after)
	}
	limit, last := q.Bound(), int64(0)
	rows, err := s.db.QueryContext(ctx, sqltext.SQLiteHistory+c.where()+" ORDER BY id DESC LIMIT ?", append(c.args, limit+1)...)
	if err != nil {
		return nil, "", wrap("history", err)
	}
	defer rows.Close()
	for rows.Next() {
		if len(changes) == limit { // there is one more
			next = strconv.FormatInt(last, 10)
			break
		}
		id, change, err := scanChange(rows)
		if err != nil {
			return nil, "", wrap("history", err)
		}
		changes, last = append(changes, change), id
	}
	if err := rows.Err(); err != nil {
		return nil, "", wrap("history", err)
	}
	return changes, next, nil
}

func scanChange(rows *sql.Rows) (id int64, c stet.Change, err error) {
	var was, became string
	var at int64
	n := &c.Note
	if rows.Scan(&id, &c.ID.Scope, &c.ID.Key, &was, &became, &c.Attempt, &at, &n.Who, &n.Why, &n.Evidence, &n.Notice) != nil {
		return 0, c, errColumn // as it is: what it holds is not for logs
	}
	if c.From, err = stet.ParseState(was); err == nil {
		c.To, err = stet.ParseState(became)
	}
	if err != nil {
		return 0, c, fmt.Errorf("%w: a state in row %d of the history", stet.ErrCorrupt, id)
	}
	c.At = time.UnixMicro(at).UTC()
	return id, c, nil
}

// Append implements [stet.Historian].
func (s *sqlite) Append(ctx context.Context, c stet.Change) error { return errors.ErrUnsupported }
