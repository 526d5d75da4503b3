package pgstore

import (
	"context"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// History pages through the changes that had a note and what was appended, newest first. A row that cannot be read is
// [stet.ErrCorrupt]: a history with holes in it is no evidence.
func (s *Store) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	if err = s.calls.enter(); err == nil {
		defer s.calls.leave()
		changes, next, err = history(ctx, s.pool, q)
	}
	return changes, next, s.wrap("history", err)
}

// Append adds an entry that tells of no change.
func (s *Store) Append(ctx context.Context, c stet.Change) (err error) {
	if err = s.calls.enter(); err == nil {
		defer s.calls.leave()
		err = appendTo(ctx, s.pool, &c)
	}
	return s.wrap("append", err)
}

func (b bound) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	changes, next, err := history(ctx, b.q, q)
	return changes, next, b.s.wrap("history", err)
}

func (b bound) Append(ctx context.Context, c stet.Change) error {
	return b.s.wrap("append", appendTo(ctx, b.q, &c))
}

func appendTo(ctx context.Context, q Querier, c *stet.Change) error {
	return each(ctx, q, sqltext.PostgresAppend, sqltext.PostgresEncoder.Appended(c), func(Rows) error { return nil })
}

func history(ctx context.Context, q Querier, h stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	c := &condition{}
	switch {
	case h.ID != (stet.ID{}):
		c.and("scope = ? AND key = ?", sqltext.PostgresEncoder.ID(nil, h.ID)...)
	case h.Tag != "":
		tag := sqltext.PostgresEscape(h.Tag)
		c.and("md5(tag) = md5(?::text) AND tag = ?::text", tag, tag)
	case h.Who != "":
		who := sqltext.PostgresEscape(h.Who)
		c.and("md5(who) = md5(?::text) AND who = ?::text", who, who)
	case h.Scope != "":
		c.and("scope = ?", sqltext.PostgresEscape(string(h.Scope)))
	}
	if err := c.after(h.After, "<"); err != nil {
		return nil, "", err
	}
	page := sqltext.NewHistoryPage(h)
	sql := fmt.Sprintf("%s%s ORDER BY id DESC LIMIT %d", sqltext.PostgresHistory, c.where(), page.Rows())
	err = each(ctx, q, sql, c.args, func(rows Rows) error {
		var row sqltext.ChangeRow
		if rows.Scan(row.Dest()...) != nil {
			return errColumn
		}
		if err := row.Unescape(); err != nil {
			return err
		}
		change, err := row.Change()
		if err == nil {
			page.Add(row.ID, change)
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return page.Changes, page.Next, nil
}
