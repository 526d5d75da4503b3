package sqlstore

import (
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tablestore"
)

func (s *sqlite) forgetting() tablestore.Forgetting {
	return tablestore.Forgetting{Wrap: wrap,
		Shorten: func(ctx context.Context, age time.Duration, limit int) (int, error) {
			return s.forget(ctx, func(o *op) { o.statement, o.args = s.Reader.Trimming(age, limit) })
		},
		Clear: func(ctx context.Context, q *stet.HistoryQuery, limit int) (int, error) {
			return s.forget(ctx, func(o *op) { o.statement, o.args = s.Reader.Erasing(q, limit) })
		}}
}

// forget changes rows of the history in a group with other writes.
func (s *sqlite) forget(ctx context.Context, fill func(o *op)) (int, error) {
	if err := s.Write(ctx); err != nil {
		return 0, err
	}
	o := &op{}
	o.Ctx, o.Verb = ctx, forget
	fill(o)
	err := s.queue.Do(o)
	return o.gone, err
}

func (s *statements) forget(o *op) error {
	o.gone = 0
	res, err := s.on.ExecContext(context.Background(), o.statement, o.args...)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	o.gone = int(n)
	return err
}
