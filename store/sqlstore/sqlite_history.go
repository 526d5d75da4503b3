package sqlstore

import (
	"context"

	"github.com/stet-dev/stet"
)

// entryOf is the write of an entry that tells of no change.
func entryOf(ctx context.Context, c *stet.Change) *op {
	o := &op{args: text.Appended(c)}
	o.Ctx, o.Verb, o.Head.ID = ctx, appendTo, c.ID
	return o
}

func (s *statements) appendTo(o *op) error {
	_, err := s.write(s.entry, append(o.args[:len(o.args):len(o.args)], s.clock.Micros()))
	return err
}
