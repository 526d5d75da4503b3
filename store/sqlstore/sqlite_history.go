package sqlstore

import (
	"context"

	"github.com/stet-dev/stet"
)

// Append adds an entry that tells of no change.
func (s *sqlite) Append(ctx context.Context, c stet.Change) error {
	return wrap("append", s.queue.Do(appendOp(ctx, &c)))
}

// History pages through the changes, as the transaction sees them.
func (b *boundSQLite) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	err = b.do(ctx, func() (err error) {
		changes, next, err = readSQLite(b.tx, b.clock).History(context.WithoutCancel(ctx), q)
		return err
	})
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
