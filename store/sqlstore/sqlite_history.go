package sqlstore

import (
	"context"

	"github.com/stet-dev/stet"
)

// Append adds an entry that tells of no change.
func (s *sqlite) Append(ctx context.Context, c stet.Change) error {
	return wrap("append", s.queue.Do(appendOp(ctx, &c)))
}

// Append adds an entry that tells of no change.
func (b *boundSQLite) Append(ctx context.Context, c stet.Change) error {
	return wrap("append", b.do(ctx, func() error { return b.apply(appendOp(ctx, &c)) }))
}

func appendOp(ctx context.Context, c *stet.Change) *op {
	o := newOp(ctx, appendTo, &stet.Head{ID: c.ID}, nil)
	o.args = text.Appended(c)
	return o
}

func (s *statements) appendTo(o *op) error {
	_, err := s.write(s.entry, append(o.args[:len(o.args):len(o.args)], s.clock.Micros()))
	return err
}
