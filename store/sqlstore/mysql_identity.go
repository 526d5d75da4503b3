package sqlstore

import (
	"context"
	"errors"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/storeid"
)

// storeMySQL reads which store a connection leads to.
func storeMySQL(ctx context.Context, c *lane) (now stet.Identity, err error) {
	q := about(c).Add(sqltext.MySQLStore)
	err = eachRow(ctx, c, q, func(row sqltext.Scanner) error {
		now, err = sqltext.ScanMySQLStore(row)
		return err
	})
	return now, err
}

// look is [storeid.Gate].Look.
func (s *mysql) look(ctx context.Context) (now stet.Identity, err error) {
	err = s.lookUps.with(ctx, func(c *lane) error {
		now, err = storeMySQL(ctx, c)
		return err
	})
	return now, err
}

// makeStore is [storeid.Gate].Make.
func (s *mysql) makeStore(ctx context.Context, was, next stet.Identity) error {
	err := s.lookUps.with(ctx, func(c *lane) error {
		_, _, err := exec(ctx, c, sqltext.MySQLMakeStore(was.ID, &next))
		return err
	})
	if answered(err) == mysqlDuplicate { // another process was faster
		return nil
	}
	return err
}

// raise is [storeid.Gate].Raise.
func (s *mysql) raise(ctx context.Context, known stet.Identity, step string) (now stet.Identity, err error) {
	err = s.lookUps.with(ctx, func(c *lane) error {
		q := new(sqltext.MySQL).Fill(sqltext.MySQLRaise, step, storeid.TrailSize, known.ID, known.Mark)
		if _, _, err := exec(ctx, c, q); err != nil {
			return err
		}
		now, err = storeMySQL(ctx, c)
		return err
	})
	return now, err
}

// pass is passed by each write.
func (s *mysql) pass(ctx context.Context) error {
	err := s.Write(ctx)
	if err == nil || errors.Is(err, stet.ErrForeign) {
		return err
	}
	return groupcommit.Nothing(err)
}

// writing calls f with a connection that leads to the store that it has to lead to: the first write
// on each connection looks, since a new one may lead to another server.
func (s *mysql) writing(ctx context.Context, on *lanes, f func(c *lane) error) error {
	return on.with(ctx, func(c *lane) error {
		if !c.seen {
			if err := lookAgain(ctx, c, s.Gate); err != nil {
				return groupcommit.Nothing(err)
			}
			c.seen = true
		}
		return f(c)
	})
}

// lookAgain is [stet.ErrForeign] where c leads to another store than is known.
func lookAgain(ctx context.Context, c *lane, gate *storeid.Gate) error {
	sight := gate.Sight()
	now, err := storeMySQL(ctx, c)
	if err != nil {
		return err
	}
	return sight.Saw(now)
}
