package sqlstore

import (
	"context"
	"database/sql"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Wait looks at the record every 25 ms, and then less and less often, down to once in a second: the
// server does not tell of changes.
func (s *mysql) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	q := new(sqltext.MySQL).Add("SELECT `version` FROM stet_records WHERE ").Whose(id)
	return wrap("wait", rest.Look(ctx, rest.FirstLook, nil, func() (bool, error) {
		var there stet.Version
		err := s.lookUps.with(ctx, func(c *lane) error {
			err := c.QueryRowContext(ctx, string(q.Text)).Scan(&there)
			if err == sql.ErrNoRows {
				return nil
			}
			return fault(err)
		})
		return there != seen, err
	}))
}
