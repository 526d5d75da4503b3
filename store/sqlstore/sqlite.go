package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"sync"
	"sync/atomic"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/inplace"
	"github.com/stet-dev/stet/internal/monotonic"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/storeid"
	"github.com/stet-dev/stet/internal/tablestore"
)

var text sqltext.Encoder = sqltext.SQLiteText

// sqlite is a store in a file: one connection writes, in groups, and others read beside it.
type sqlite struct {
	tablestore.Listing
	tablestore.Verbs[*op]
	tablestore.Forgetting
	*storeid.Gate
	db      *sql.DB
	clock   *monotonic.Shared
	readers *lanes
	queue   *groupcommit.Queue[*op]
	known   known
	log     *log
	file    string // its full path, as the database says it
	path    string // the name by which it was opened
	files   *inplace.Files
	left    []stet.Head // by holders that are gone

	compareAfter atomic.Int64 // the row that was compared last with its index

	closeWriter func()
	leave       func() // others may believe then that it is not open
}

var (
	_ database        = (*sqlite)(nil)
	_ stet.Finder     = (*sqlite)(nil)
	_ stet.Historian  = (*sqlite)(nil)
	_ stet.Forgetter  = (*sqlite)(nil)
	_ stet.Binder     = (*sqlite)(nil)
	_ stet.Reaper     = (*sqlite)(nil)
	_ stet.Sizer      = (*sqlite)(nil)
	_ stet.Heir       = (*sqlite)(nil)
	_ stet.Identified = (*sqlite)(nil)
	_ LogSizer        = (*sqlite)(nil)
)

func openSQLite(ctx context.Context, db *sql.DB, c Config) (*sqlite, error) {
	var file string
	var synchronous int // which is checked below
	if err := db.QueryRowContext(ctx, sqltext.SQLiteFile).Scan(&file, &synchronous); err != nil {
		return nil, err
	}
	path := cmp.Or(c.Path, file)
	files, err := watch(file, path)
	if err != nil {
		return nil, err
	}
	inherited := left(ctx, db, file)
	leave, err := present(ctx, db, file)
	if err != nil {
		return nil, err
	}
	clk := &monotonic.Shared{Now: c.Clock}
	w := &writer{db: db, log: &log{max: c.MaxLog}, files: files, statements: statements{clock: clk}}
	if err := w.connect(ctx); err != nil {
		leave()
		return nil, err
	}
	watchLog(files, file)
	s := &sqlite{Listing: listing(readSQLite(db, clk.Micros)), db: db, clock: clk, log: w.log, files: files,
		file: file, path: path, left: inherited, leave: sync.OnceFunc(leave)}
	s.readers = newLanes(db, c.Readers, s.inPlace)
	s.identify()
	w.gate = s.Gate
	s.queue = groupcommit.New(groupcommit.Config[*op]{Begin: w.begin, Many: w.commit, Look: s.look, LookAfter: lookAfter,
		Looks: func(o *op) bool { return o.Verb == tablestore.Create }, Groups: 1, MaxGroup: maxBatch, MaxBytes: maxBatchBytes, Closed: ErrClosed})
	s.Verbs, s.Forgetting = s.verbs(), s.forgetting()
	s.closeWriter = sync.OnceFunc(w.close)
	s.log.file = s.file + "-wal"
	err = s.readers.with(ctx, func(another *lane) error { // what was set by hand on one connection is not set on the next
		return checkConn(ctx, another)
	})
	if err == nil {
		err = s.Open(ctx)
	}
	if err != nil {
		w.close()
		s.readers.close()
		leave()
		return nil, err
	}
	return s, nil
}

// asItIs sets up a connection that only reads: no promise rests on its settings.
func asItIs(context.Context, *lane) error { return nil }

// inPlace is [asItIs] for a file that may have been exchanged since the others were opened.
func (s *sqlite) inPlace(context.Context, *lane) error { return s.files.Check() }

// Close waits for the writes that have begun, refuses new ones, and closes the connections the
// store held. It leaves db open. The second Close does nothing.
func (s *sqlite) Close() error {
	defer s.leave()
	s.Gate.Close() // before the queue, through which it raises the mark
	s.queue.Close()
	s.closeWriter()
	s.readers.close()
	return nil
}

func (s *sqlite) verbs() tablestore.Verbs[*op] {
	return tablestore.NewVerbs(tablestore.Driver[*op]{New: newOp, Pack: (*op).pack, Do: s.carry, Get: s.get, Wrap: wrap,
		Append: func(ctx context.Context, c *stet.Change) error { return s.carry(entryOf(ctx, c)) }})
}
