package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/stet-dev/stet/internal/sqltext"
)

// DefaultMaxLog is used where [Config] does not say: twice what [SQLiteDSN] moves from the log into the table at a time.
const DefaultMaxLog = 32 << 20

const (
	logPatience = 100 * time.Millisecond // how long writes wait for those who read the log, each time it is to be cut off
	logSteps    = 8                      // the log grows by this part of its limit before that is tried again
)

// LogSizer is a store that writes a log before its table, such as SQLite's: an ability, found with [stet.As].
type LogSizer interface {
	// LogSize is how many bytes the log takes on the disk.
	LogSize() (int64, error)
}

// log is the file that SQLite appends to, until what is in it has been moved into the table. SQLite begins it anew by itself
// when a write finds that all of it was moved and that no read is using it. Where reads overlap without a gap no write ever finds
// that, and the log would grow for as long as they do; so a log that is too large is cut off by a checkpoint that waits for
// the reads that have begun: those that begin meanwhile do not need the log (B06).
type log struct {
	file string
	max  int64
	next int64 // not tried again before it has this size: somebody has been reading for long
}

func (l *log) size() (int64, error) {
	info, err := os.Stat(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (l *log) full() bool {
	size, err := l.size()
	return err == nil && size > max(l.max, l.next)
}

// tried: the log was to be cut off. If it was not, that is not tried again with the next write.
func (l *log) tried() {
	l.next = 0
	if size, err := l.size(); err == nil && size > l.max {
		l.next = size + l.max/logSteps
	}
}

// LogSize implements [LogSizer].
func (s *sqlite) LogSize() (int64, error) {
	size, err := s.log.size()
	return size, wrap("log size", err)
}

// cutLog cuts the log off, if those who read it end soon. No transaction is open. A connection that does not wait for others as
// long as before is of no use.
func (w *writer) cutLog() {
	ctx := context.Background()
	var patience int64
	var busy, pages, moved sql.NullInt64
	err := w.conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&patience)
	if err == nil {
		err = w.wait(ctx, min(patience, logPatience.Milliseconds()))
	}
	if err == nil { // what it says is not asked: the file tells
		_ = w.conn.QueryRowContext(ctx, sqltext.SQLiteTruncate).Scan(&busy, &pages, &moved)
		err = w.wait(ctx, patience)
	}
	if err != nil {
		w.discard()
	}
	w.log.tried()
}

// wait sets how many milliseconds the connection waits for others.
func (w *writer) wait(ctx context.Context, ms int64) error {
	_, err := w.conn.ExecContext(ctx, sqltext.SQLiteWait(ms))
	return err
}
