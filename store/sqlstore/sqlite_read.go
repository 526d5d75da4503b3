package sqlstore

import (
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

func (s *sqlite) get(ctx context.Context, id stet.ID) (stet.Record, error) {
	c, err := s.readers.take(ctx)
	if err != nil {
		return stet.Record{}, err
	}
	defer func() { s.readers.leave(c) }()
	have, err := getRecord(c, s.clock.Micros, id, stet.MaxBody(ctx))
	if c.used = time.Now(); failed(err) { // another connection may do better
		c.discard()
		c = nil
	}
	return have, err
}

// getRecord leaves a body that is larger than most.
func getRecord(c querier, micros func() int64, id stet.ID, most int64) (stet.Record, error) {
	var row sqltext.Row
	if err := one(c, sqltext.SQLiteGet, append(text.ID(make([]any, 0, 3), id), most), row.DestBody()); err != nil {
		return stet.Record{}, err
	}
	return row.Record(micros())
}

func getHead(c querier, micros func() int64, id stet.ID) (stet.Head, error) {
	var row sqltext.Row
	if err := one(c, sqltext.SQLiteGetHead, text.ID(nil, id), row.Dest()); err != nil {
		return stet.Head{}, err
	}
	return row.Head(micros())
}

// one scans the only row of an answer into dest, or answers [stet.ErrNotFound]. It takes
// microseconds and never waits, so that it has no context: one that may end costs database/sql and
// the driver a goroutine each.
func one(c querier, query string, args, dest []any) error {
	rows, err := c.QueryContext(context.Background(), query, args...)
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

func readSQLite(from querier, micros func() int64) *sqltext.Reader {
	return &sqltext.Reader{Dialect: sqltext.SQLiteDialect, Clock: micros,
		Run: func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			rows, err := from.QueryContext(ctx, statement, args...)
			return sqltext.EachRow(rows, err, row)
		}}
}
