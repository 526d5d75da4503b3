package sqlstore

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/storeid"
	"github.com/stet-dev/stet/internal/tablestore"
)

// mysql is a store in MySQL or MariaDB. The server's clock counts. A read waits for no transaction
// that writes the row.
type mysql struct {
	tablestore.Listing
	tablestore.Verbs[*job]
	tablestore.Forgetting
	*storeid.Gate
	db       *sql.DB
	lookUps  *lanes // also for writes that others hold up
	writes   *lanes
	creates  *groupcommit.Queue[*job]
	changes  *groupcommit.Queue[*job]
	held     groupcommit.Held[stet.ID]
	database atomic.Value // a string: which one of which server this is
	most     atomic.Int64 // bytes of a statement that the server reads
	alone    atomic.Int64 // writes that the server has acknowledged without a replica
	volatile bool         // a server that may lose what it acknowledged is taken
}

// mysqlWriters is how many connections write: as many as the two groups may ask for at a time.
const mysqlWriters = 2 * (fewWrites + maxGroups)

// Limits of the groups of one kind.
const (
	// fewWrites are not grouped: the server syncs its log once for all that commit at a time, so
	// that a handful of callers is served best by a statement each, at once.
	fewWrites = 8
	// maxGroups are under way at a time: while one is being synced, the next is sent.
	maxGroups = 2
	maxGroup  = 128
	// groupTimeout is how long a group may take whose writers have no deadline.
	groupTimeout = 30 * time.Second
)

var (
	_ database       = (*mysql)(nil)
	_ stet.Finder    = (*mysql)(nil)
	_ stet.Historian = (*mysql)(nil)
	_ stet.Forgetter = (*mysql)(nil)
	_ stet.Waiter    = (*mysql)(nil)
	_ stet.Binder    = (*mysql)(nil)
	_ stet.Reaper    = (*mysql)(nil)
	_ stet.Checker   = (*mysql)(nil)
	_ stet.Sizer     = (*mysql)(nil)

	_ stet.Identified = (*mysql)(nil)
)

func openMySQL(ctx context.Context, db *sql.DB, c Config) (*mysql, error) {
	server, err := checkMySQL(ctx, db, c.AllowVolatile)
	if err != nil {
		return nil, err
	}
	most := c.Readers + mysqlWriters
	if limit := db.Stats().MaxOpenConnections; limit > 0 && limit <= most {
		most = max(1, limit/2)
	}
	connections := &stock{db: db, setUp: server.setUp, tell: fault, most: most}
	s := &mysql{db: db, lookUps: connections.lanes(c.Readers), writes: connections.lanes(mysqlWriters), volatile: c.AllowVolatile}
	s.Listing = listing(s.reader())
	s.most.Store(server.packet)
	s.alone.Store(server.semiSync.alone)
	s.Gate = &storeid.Gate{Look: s.look, Make: s.makeStore, Raise: s.raise}
	if err := s.learn(ctx); err != nil {
		s.lookUps.close()
		return nil, err
	}
	s.Forgetting = s.forgetting()
	s.creates, s.changes = s.queue(carryCreates), s.queue(carryChanges)
	s.Verbs = tablestore.NewVerbs(tablestore.Driver[*job]{New: s.newJob, Pack: s.pack, Do: s.carry, Get: s.get, Append: s.appendTo, Wrap: wrap})
	return s, nil
}

// learn asks which store this is, and of which database.
func (s *mysql) learn(ctx context.Context) error {
	name, err := databaseMySQL(ctx, s.db)
	if err != nil {
		return fmt.Errorf("which database this is: %w", err)
	}
	s.database.Store(name)
	return s.Gate.Open(ctx)
}

// Close waits for the writes that have begun, refuses new ones, and closes the connections the
// store held. It leaves db open. The second Close does nothing.
func (s *mysql) Close() error {
	s.creates.Close()
	s.changes.Close()
	s.Gate.Close()
	s.writes.close()
	s.lookUps.close()
	return nil
}

func (s *mysql) get(ctx context.Context, id stet.ID) (r stet.Record, err error) {
	err = s.inTime(ctx, func() error {
		return s.lookUps.with(ctx, func(c *lane) error {
			r, err = getMySQL(ctx, c, id, "")
			return err
		})
	})
	return r, err
}

func (s *mysql) carry(j *job) error {
	return s.inTime(j.Ctx, func() error {
		switch err := s.pass(j.Ctx); {
		case err != nil:
			return err
		case j.Verb == tablestore.Create:
			return s.creates.Do(j)
		}
		return s.changes.Do(j)
	})
}

func (s *mysql) appendTo(ctx context.Context, c *stet.Change) error {
	return s.inTime(ctx, func() error {
		if err := s.pass(ctx); err != nil {
			return err
		}
		return s.writing(ctx, s.writes, func(l *lane) error { return appendMySQL(ctx, l, c) })
	})
}

// inTime makes a call. Its time may be over before it has had a connection: that is
// [stet.ErrBusy] where others had one meanwhile.
func (s *mysql) inTime(ctx context.Context, call func() error) error {
	served := s.writes.served.Load()
	err := call()
	if errors.Is(err, groupcommit.ErrNothing) && errors.Is(ctx.Err(), context.DeadlineExceeded) && s.writes.served.Load() > served {
		err = fmt.Errorf("%w: %w", stet.ErrBusy, err)
	}
	return err
}

// pack refuses what no row can hold, and what the server would not read to its end: it would close
// the connection over it.
func (s *mysql) pack(j *job) (err error) {
	if j.Verb == tablestore.Remove {
		return nil
	}
	var place [16]byte
	if j.Verb == tablestore.Create {
		place = order()
	}
	if j.write, err = sqltext.NewMySQLWrite(place, &j.Head, j.Written()); err != nil {
		return err
	}
	j.Size = j.write.Size()
	if size, most := int64(j.Size+statement), s.most.Load(); size > most {
		return fmt.Errorf("%w: nothing was sent: the record takes %d bytes, and the server's max_allowed_packet is %d; raise that, or keep less of "+
			"requests and responses", stet.ErrRefused, size, most)
	}
	return nil
}

// statement is how many bytes of a statement are no values: columns, places and conditions.
const statement = 8 << 10

// Sizes implements [stet.Sizer].
func (s *mysql) Sizes() stet.Sizes {
	const head = 2 * 64 << 10 // as hexadecimal text
	return stet.Sizes{Scope: sqltext.MySQLNameSize, Key: sqltext.MySQLNameSize, Body: s.most.Load() - statement - head,
		Setting: fmt.Sprintf("the server's max_allowed_packet (%d)", s.most.Load())}
}

// order returns a record's place in lists: by the clock of the process that creates it, and at
// random within a millisecond.
func order() (o [16]byte) {
	binary.BigEndian.PutUint64(o[:], uint64(time.Now().UnixMilli())<<16|uint64(rand.Uint32N(1<<16)))
	binary.BigEndian.PutUint64(o[8:], rand.Uint64())
	return o
}

// Wait looks at the record every 25 ms, and then less and less often, down to once in a second: the
// server does not tell of changes.
func (s *mysql) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	q := new(sqltext.MySQL).Add("SELECT `version` FROM stet_records WHERE ").Whose(id)
	return wrap("wait", rest.Look(ctx, rest.FirstLook, nil, func() (bool, error) {
		var there stet.Version
		err := s.lookUps.with(ctx, func(c *lane) error {
			err := c.raw.QueryRowContext(ctx, string(q.Text)).Scan(&there)
			if err == sql.ErrNoRows {
				return nil
			}
			return fault(err)
		})
		return there != seen, err
	}))
}
