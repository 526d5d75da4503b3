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
	return n, nil
}

func (s *statements) reap(o *op) error {
	o.gone = 0
	for _, state := range tablestore.Reaped {
		if o.gone == o.limit {
			break
		}
		res, err := s.on.ExecContext(context.Background(), sqltext.SQLiteReap, state.String(), s.clock.Micros(), o.limit-o.gone)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		o.gone += int(n)
	}
	return nil
}
