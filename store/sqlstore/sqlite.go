package sqlstore

import (
	"context"
	"database/sql"
	"sync"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/monotonic"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

var text sqltext.Encoder = sqltext.SQLiteText

// sqlite is a store in a file: one connection writes, in groups, and others read beside it.
type sqlite struct {
	tablestore.Listing
	tablestore.Verbs[*op]
	clock   *monotonic.Clock
	readers *lanes
	queue   *groupcommit.Queue[*op]
	known   known
	log     *log
	file    string // its full path, as the database says it

	closeWriter func()
}

var (
	_ database       = (*sqlite)(nil)
	_ stet.Finder    = (*sqlite)(nil)
	_ stet.Historian = (*sqlite)(nil)
	_ stet.Binder    = (*sqlite)(nil)
	_ stet.Reaper    = (*sqlite)(nil)
	_ LogSizer       = (*sqlite)(nil)
)

func openSQLite(ctx context.Context, db *sql.DB, c Config) (*sqlite, error) {
	clk := &monotonic.Clock{Now: c.Clock}
	w := &writer{db: db, log: &log{max: c.MaxLog}, statements: statements{clock: clk}}
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	s := &sqlite{Listing: listing(readSQLite(db, clk)), clock: clk, readers: newLanes(db, c.Readers, asItIs), log: w.log}
	s.queue = groupcommit.New(groupcommit.Config[*op]{Begin: w.begin, Many: w.commit, Look: s.look, LookAfter: lookAfter,
		Looks: func(o *op) bool { return o.Verb == tablestore.Create }, Groups: 1, MaxGroup: maxBatch, MaxBytes: maxBatchBytes, Closed: ErrClosed})
	s.Verbs = s.verbs()
	s.closeWriter = sync.OnceFunc(w.close)
	var synchronous int // which has been checked
	err := w.conn.raw.QueryRowContext(ctx, sqltext.SQLiteFile).Scan(&s.file, &synchronous)
	s.log.file = s.file + "-wal"
	if err == nil {
		err = s.readers.with(ctx, func(another *lane) error { // what was set by hand on one connection is not set on the next
			return checkConn(ctx, another)
		})
	}
	if err != nil {
		w.close()
		s.readers.close()
		return nil, err
	}
	return s, nil
}

// asItIs sets up a connection that only reads: no promise rests on its settings.
func asItIs(context.Context, *lane) error { return nil }

// Close waits for the writes that have begun, refuses new ones, and closes the connections the
// store held. It leaves db open. The second Close does nothing.
func (s *sqlite) Close() error {
	s.queue.Close()
	s.closeWriter()
	s.readers.close()
	return nil
}

func (s *sqlite) verbs() tablestore.Verbs[*op] {
	return tablestore.NewVerbs(tablestore.Driver[*op]{New: newOp, Pack: (*op).pack, Do: s.carry, Get: s.get, Wrap: wrap,
		Append: func(ctx context.Context, c *stet.Change) error { return s.queue.Do(entryOf(ctx, c)) }})
}
