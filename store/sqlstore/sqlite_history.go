package sqlstore

import (
	"context"
	"strconv"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// History pages through the changes that had a note and what was appended, newest first. A row that cannot be read is
// [stet.ErrCorrupt]: a history with holes in it is no evidence.
func (s *sqlite) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	changes, next, err := history(ctx, s.db, q)
	return changes, next, wrap("history", err)
}

// Append adds an entry that tells of no change.
func (s *sqlite) Append(ctx context.Context, c stet.Change) error {
	return wrap("append", s.queue.Do(appendOp(ctx, &c)))
}

// History pages through the changes, as the transaction sees them.
func (b *boundSQLite) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	err = b.do(ctx, func() (err error) { changes, next, err = history(context.WithoutCancel(ctx), b.tx, q); return err })
	return changes, next, wrap("history", err)
}

// Append adds an entry that tells of no change.
func (b *boundSQLite) Append(ctx context.Context, c stet.Change) error {
	return wrap("append", b.do(ctx, func() error { return b.apply(appendOp(ctx, &c)) }))
}

func appendOp(ctx context.Context, c *stet.Change) *op {
	o := newOp(ctx, appendTo, &stet.Head{ID: c.ID}, &stet.Body{})
	o.args = text.Appended(c)
	return o
}

func (s *statements) appendTo(o *op) error {
	_, err := s.write(s.entry, append(o.args[:len(o.args):len(o.args)], s.clock.micros()))
	return err
}

func history(ctx context.Context, db querier, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	var c condition
	switch {
	case q.ID != stet.ID{}:
		c.and("scope = ? AND key = ?", text.ID(nil, q.ID)...)
	case q.Tag != "":
		c.and("tag = ?", text(q.Tag))
	case q.Who != "":
		c.and("who = ?", text(q.Who))
	case q.Scope != "":
		c.and("scope = ?", text(string(q.Scope)))
	}
	if q.After != "" {
		after, err := strconv.ParseInt(q.After, 10, 64)
		if err != nil {
			return nil, "", errCursor
		}
		c.and("id < ?", after)
	}
	page := sqltext.NewHistoryPage(q)
	rows, err := db.QueryContext(ctx, sqltext.SQLiteHistory+c.where()+" ORDER BY id DESC LIMIT ?", append(c.args, page.Rows())...)
	if err != nil {
		return nil, "", err
	}
	defer rows.Close()
	for more := true; more && rows.Next(); {
		var row sqltext.ChangeRow
		if rows.Scan(row.Dest()...) != nil {
			return nil, "", errColumn // as it is: what it holds is not for logs
		}
		change, err := row.Change()
		if err != nil {
			return nil, "", err
		}
		more = page.Add(row.ID, change)
	}
	if err := rows.Err(); err != nil {
		return nil, "", err
	}
	return page.Changes, page.Next, nil
}
