package sqlstore

import (
	"context"

	"github.com/stet-dev/stet"
)

// together is how many records one write removes: others wait no longer than that takes.
const together = 64

// reaped are the states of records that are removed when they are due.
var reaped = [...]stet.State{stet.Completed, stet.Retryable, stet.Expired}

// Reap removes records whose time is over, some at a time, so that requests get their turn in between.
func (s *sqlite) Reap(ctx context.Context, limit int) (n int, err error) {
	for n < limit {
		o := newOp(ctx, reap, &stet.Head{}, &stet.Body{})
		o.limit = min(limit-n, together)
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
	for _, state := range reaped {
		if o.gone == o.limit {
			break
		}
		res, err := s.reapOver.ExecContext(context.Background(), state.String(), s.clock.micros(), o.limit-o.gone)
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
