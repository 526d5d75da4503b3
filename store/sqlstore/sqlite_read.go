package sqlstore

import (
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/monotonic"
	"github.com/stet-dev/stet/internal/sqltext"
)

func (s *sqlite) get(ctx context.Context, id stet.ID) (stet.Record, error) {
	c, err := s.readers.take(ctx)
	if err != nil {
		return stet.Record{}, err
	}
	defer func() { s.readers.leave(c) }()
	have, err := getRecord(c, s.clock, id)
	if c.used = time.Now(); failed(err) { // another connection may do better
		c.discard()
		c = nil
	}
	return have, err
}

func getRecord(c querier, clk *monotonic.Clock, id stet.ID) (stet.Record, error) {
	var row sqltext.Row
	if err := one(c, sqltext.SQLiteGet, id, row.DestBody()); err != nil {
		return stet.Record{}, err
	}
	return row.Record(clk.Micros())
}

func getHead(c querier, clk *monotonic.Clock, id stet.ID) (stet.Head, error) {
	var row sqltext.Row
	if err := one(c, sqltext.SQLiteGetHead, id, row.Dest()); err != nil {
		return stet.Head{}, err
	}
	return row.Head(clk.Micros())
}

// one scans the only row of id into dest, or answers [stet.ErrNotFound]. It takes microseconds and
// never waits, so that it has no context: one that may end costs database/sql and the driver a
// goroutine each.
func one(c querier, query string, id stet.ID, dest []any) error {
	rows, err := c.QueryContext(context.Background(), query, text.ID(nil, id)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return stet.ErrNotFound
	}
	if err := rows.Scan(dest...); err != nil {
		return sqltext.Unread(context.Background(), err)
	}
	return rows.Close()
}

func readSQLite(from querier, clk *monotonic.Clock) *sqltext.Reader {
	return &sqltext.Reader{Dialect: sqltext.SQLiteDialect, Clock: clk.Micros,
		Run: func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			rows, err := from.QueryContext(ctx, statement, args...)
			return sqltext.EachRow(rows, err, row)
		}}
}
