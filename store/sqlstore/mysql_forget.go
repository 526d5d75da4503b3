package sqlstore

import (
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

func (s *mysql) forgetting() tablestore.Forgetting {
	return tablestore.Forgetting{Wrap: wrap,
		Shorten: func(ctx context.Context, age time.Duration, limit int) (int, error) {
			return s.forget(ctx, sqltext.MySQLTrim, func(r *sqltext.Reader) (string, []any) { return r.Trimming(age, limit) })
		},
		Clear: func(ctx context.Context, q *stet.HistoryQuery, limit int) (int, error) {
			return s.forget(ctx, sqltext.MySQLErase, func(r *sqltext.Reader) (string, []any) { return r.Erasing(q, limit) })
		}}
}

// forget looks for rows of the history without locking any, and changes those that are still there.
func (s *mysql) forget(ctx context.Context, change func(ids []int64) *sqltext.MySQL, find func(*sqltext.Reader) (string, []any)) (n int, err error) {
	if err := s.pass(ctx); err != nil {
		return 0, err
	}
	err = s.writing(ctx, s.lookUps, func(c *lane) error {
		reader := readMySQL(c)
		statement, args := find(reader)
		var ids []int64
		err := reader.Run(ctx, statement, args, func(row sqltext.Scanner) error {
			var id int64
			err := row.Scan(&id)
			ids = append(ids, id)
			return err
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		rows, _, err := exec(ctx, c, change(ids))
		n = int(rows)
		return err
	})
	return n, err
}
