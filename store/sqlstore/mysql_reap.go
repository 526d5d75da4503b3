package sqlstore

import (
	"context"
	"slices"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// Reap removes records whose time is over, some hundreds in one transaction, as a group of deletes
// does. Rows that another transaction holds, or has changed since they were looked at, are passed
// over.
func (s *mysql) Reap(ctx context.Context, limit int) (n int, err error) {
	if err := s.pass(ctx); err != nil {
		return 0, wrap("reap", err)
	}
	for _, state := range tablestore.Reaped {
		for more := true; more && n < limit; {
			err := s.writing(ctx, s.lookUps, func(c *lane) error {
				over, err := overMySQL(ctx, c, state, min(limit-n, together))
				if err != nil || len(over) == 0 {
					more = false
					return err
				}
				if err = carryChanges(ctx, c, over); err != nil {
					if more = false; settlesMySQL(err) != groupcommit.Final { // none of them is gone
						return nil
					}
					return err
				}
				gone := 0
				for _, j := range over {
					if j.Err == nil {
						gone++
					}
				}
				n, more = n+gone, gone > 0
				return nil
			})
			if err != nil {
				return n, wrap("reap", err)
			}
		}
	}
	return n, nil
}

// overMySQL makes a job of each record that is to be removed. It locks nothing: the index is
// everybody's.
func overMySQL(ctx context.Context, c *lane, state stet.State, limit int) (jobs []*job, err error) {
	q := new(sqltext.MySQL).Add(sqltext.MySQLVersions + " FORCE INDEX (stet_records_due)")
	q.Add(" WHERE `state` = ").Value(state.String()).Add(" AND `due_at` <= " + sqltext.MySQLNow + " AND `schema` = ").Int(sqltext.Schema)
	if state == stet.Completed {
		q.Add(" AND " + sqltext.Reapable)
	}
	rows, err := versions(ctx, c, q.Add(" ORDER BY `due_at` LIMIT ").Int(int64(limit)))
	for id, row := range rows {
		j := newJob()
		j.Ctx, j.Verb, j.Head.ID, j.Prev = ctx, tablestore.Remove, id, row.version
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, compare)
	return jobs, err
}
