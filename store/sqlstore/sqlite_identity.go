package sqlstore

import (
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/inplace"
	"github.com/stet-dev/stet/internal/localdisk"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/storeid"
)

// seenSuffix is what the name of the file that remembers the identity has after the database's.
const seenSuffix = "-seen"

// horizonStep is how far the time may go beyond the horizon before a write moves the horizon, and
// so the most by which the time goes back if the host's clock does.
const horizonStep = time.Second

// identify makes the gate of the store. It is opened when the store can be read.
func (s *sqlite) identify() {
	s.Gate = &storeid.Gate{Look: s.whose, Make: s.make, Raise: s.raise}
	if s.path != "" && localdisk.Has(s.path) {
		s.Gate.File = s.path + seenSuffix
	}
}

// watch notes which files are open: a write to one that was moved is lost.
func watch(file, path string) (*inplace.Files, error) {
	files := &inplace.Files{}
	if file == "" {
		return files, nil
	}
	if err := files.Add(file, true); err != nil {
		return nil, err
	}
	if path != file {
		if err := files.Add(path, false); err != nil {
			return nil, err
		}
	}
	return files, files.Check()
}

// watchLog is [watch] for the files that SQLite keeps beside its own while it is open.
func watchLog(files *inplace.Files, file string) {
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = files.Add(file+suffix, true) // where there is none, nothing is lost with it
	}
}

// whose reads the identity.
func (s *sqlite) whose(ctx context.Context) (now stet.Identity, err error) {
	if err := s.files.Check(); err != nil {
		return now, err
	}
	err = s.readers.with(ctx, func(c *lane) error {
		var horizon int64
		if now, horizon, err = identityOf(c); err == nil {
			s.clock.Know(horizon)
		}
		return err
	})
	return now, err
}

func identityOf(on querier) (now stet.Identity, horizon int64, err error) {
	rows, err := on.QueryContext(context.Background(), sqltext.SQLiteIdentity)
	err = sqltext.EachRow(rows, err, func(row sqltext.Scanner) error {
		now, horizon, err = sqltext.ReadIdentity(row)
		return err
	})
	return now, horizon, err
}

// make gives the store its identity. The horizon of a store that is accepted begins anew, so that
// a clock that was years ahead once does not keep the time for years.
func (s *sqlite) make(ctx context.Context, was, next stet.Identity) error {
	statement, args := sqltext.SQLiteMake, sqltext.IdentityArgs(&next, s.clock.Host())
	if was.ID != "" {
		statement, args = sqltext.SQLiteRemake, append(args, was.ID)
	}
	_, err := s.db.ExecContext(ctx, statement, args...)
	return faultSQLite(err)
}

// raise raises the mark together with the writes of others, so that it waits for no disk of its
// own.
func (s *sqlite) raise(ctx context.Context, known stet.Identity, step string) (stet.Identity, error) {
	if err := s.files.Check(); err != nil {
		return stet.Identity{}, err
	}
	o := &op{args: []any{step, known.ID, known.Mark}}
	o.Ctx, o.Verb = ctx, raise
	err := s.queue.Do(o)
	return o.now, err
}

func (s *statements) raise(o *op) error {
	if _, err := s.write(sqltext.SQLiteRaise, o.args); err != nil {
		return err
	}
	if err := s.reach(s.micros()); err != nil {
		return err
	}
	var err error
	o.now, _, err = identityOf(s.on)
	s.id, s.mark = o.now.ID, o.now.Mark
	return err
}

// recognize is called in a transaction before it writes: it compares the store with the one that it
// has to be, and reads the horizon.
func (s *statements) recognize(gate *storeid.Gate) error {
	sight := gate.Sight()
	if err := s.readWhose(); err != nil {
		return err
	}
	return s.compare(sight)
}

func (s *statements) readWhose() error {
	s.id = ""
	rows, err := s.on.QueryContext(context.Background(), sqltext.SQLiteWhose)
	return sqltext.EachRow(rows, err, func(row sqltext.Scanner) error { return row.Scan(&s.id, &s.mark, &s.horizon) })
}

func (s *statements) compare(sight storeid.Sight) error {
	if s.id == sight.Known.ID && s.mark >= sight.Known.Mark {
		return nil
	}
	now, _, err := identityOf(s.on)
	if err != nil {
		return err
	}
	return sight.Saw(now)
}

// recognize is that of [statements], which reads only if the file was changed by another connection
// since it was read.
func (w *writer) recognize() error {
	sight, data := w.gate.Sight(), w.data()
	if data == 0 || data != w.seen {
		w.seen = 0
		if err := w.readWhose(); err != nil {
			return err
		}
		w.seen = data
	}
	return w.compare(sight)
}

// versioned is a driver's connection to which SQLite tells the version of what it sees of a
// database. Each commit makes it another one, also those of its own
// (https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html, SQLITE_FCNTL_DATA_VERSION).
type versioned interface {
	FileControlDataVersion(database string) (uint32, error)
}

// data is the version of what the connection sees of the file, 0 where that is not known.
func (w *writer) data() (version uint32) {
	_ = w.conn.raw.Raw(func(driver any) error {
		if c, tells := driver.(versioned); tells {
			if v, err := c.FileControlDataVersion("main"); err == nil {
				version = v
			}
		}
		return nil
	})
	return version
}

// micros is the store's time in the transaction.
func (s *statements) micros() int64 { return max(s.clock.Micros(), s.horizon) }

// stamp is the time of a write. It moves the horizon where the time has left it behind.
func (s *statements) stamp() (int64, error) {
	now := s.micros()
	if now-s.horizon <= horizonStep.Microseconds() {
		return now, nil
	}
	return now, s.reach(now)
}

// reach moves the horizon of all who have the store open.
func (s *statements) reach(instant int64) error {
	if instant <= s.horizon {
		return nil
	}
	_, err := s.write(sqltext.SQLiteHorizon, []any{instant, instant})
	s.horizon = instant
	return err
}
