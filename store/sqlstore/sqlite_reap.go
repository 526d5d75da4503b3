package sqlstore

import (
	"context"

	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// together is how many records one write removes: others wait no longer than that takes.
const together = 64

// Reap removes records whose time is over, some at a time, so that requests get their turn in
// between.
func (s *sqlite) Reap(ctx context.Context, limit int) (n int, err error) {
	if err := s.Write(ctx); err != nil {
		return 0, wrap("reap", err)
	}
	for n < limit {
		o := &op{limit: min(limit-n, together)}
		o.Ctx, o.Verb = ctx, reap
		if err := s.queue.Do(o); err != nil {
			return n, wrap("reap", err)
		}
		if n += o.gone; o.gone < o.limit {
			break
		}
	}
	return n, wrap("reap", s.compare(ctx))
}

// compared is how many rows each Reap compares with the index by names.
const compared = 100

// compare looks at some rows with each call, until it has seen all and begins again: whether the
// index by names leads to them. An index that does not is damaged (S06).
func (s *sqlite) compare(ctx context.Context) error {
	hidden, rows, last := 0, 0, s.compareAfter.Load()
	err := s.readers.with(ctx, func(c *lane) error {
		answer, err := c.QueryContext(ctx, sqltext.SQLiteCompare, last, compared)
		return sqltext.EachRow(answer, err, func(row sqltext.Scanner) error {
			rows++
			var found int
			err := row.Scan(&last, &found)
			hidden += 1 - found
			return err
		})
	})
	if err != nil {
		return err
	}
	if rows < compared {
		last = 0
	}
	s.compareAfter.Store(last)
	if hidden > 0 {
		return errHidden
	}
	return nil
}

func (s *statements) reap(o *op) error {
	o.gone = 0
	now := s.micros()
	for _, state := range tablestore.Reaped {
		if o.gone == o.limit {
			break
		}
		res, err := s.on.ExecContext(context.Background(), sqltext.SQLiteReap, state.String(), now, o.limit-o.gone)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		o.gone += int(n)
	}
	if o.gone > 0 { // their fences are below it
		return s.reach(now)
	}
	return nil
}
