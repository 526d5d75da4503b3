package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// The server tells nobody that a row has changed: whoever waits looks, first often and then less so.
const (
	firstLook = 25 * time.Millisecond
	lastLook  = time.Second
)

// Wait looks at the record every 25 ms, and then less and less often, down to once in a second.
func (s *mysql) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	q := new(sqltext.MySQL).Add("SELECT `version` FROM stet_records WHERE ").Whose(id)
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		var there stet.Version
		err := s.lookUps.with(ctx, func(c *lane) error {
			err := c.QueryRowContext(ctx, string(q.Text)).Scan(&there)
			if err == sql.ErrNoRows {
				return nil
			}
			return fault(err)
		})
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		if err != nil || there != seen {
			return wrap("wait", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
