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

// defaultMaxLog is the default of [Config].MaxLog in bytes: twice what [SQLiteDSN] moves from the
// log into the table at a time.
const defaultMaxLog = 32 << 20

const (
	logPatience = 100 * time.Millisecond // how long writes wait for those who read the log, each time it is to be cut off
	logSteps    = 8                      // the log grows by this part of its limit before that is tried again
)

// LogSizer is the ability of a store with a write-ahead log, such as SQLite's. Find it with
// [stet.As].
type LogSizer interface {
	// LogSize returns the size of the log on the disk, in bytes.
	LogSize() (int64, error)
}

// log is SQLite's write-ahead log. SQLite overwrites it from the start when a write finds that all
// of it has been moved into the table and that no read is using it. If reads overlap without a gap,
// no write ever finds that, and the log grows. A log that is too large is therefore truncated by a
// checkpoint that waits for the reads that have begun. Reads that begin meanwhile do not need the
// log (B06).
type log struct {
	file string
	max  int64
	next int64 // not tried again before it has this size, because of a long read
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

// tried notes an attempt to truncate the log. If the log is still too large, the next write does
// not try again.
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

// cutLog truncates the log, if the reads that use it end soon. No transaction is open. If the
// connection's busy_timeout cannot be restored, the connection is discarded.
func (w *writer) cutLog() {
	ctx := context.Background()
	var patience int64
	var busy, pages, moved sql.NullInt64
	err := w.conn.raw.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&patience)
	if err == nil {
		_, err = w.conn.raw.ExecContext(ctx, sqltext.SQLiteWait(min(patience, logPatience.Milliseconds())))
	}
	if err == nil { // what it says is not asked: the file tells
		_ = w.conn.raw.QueryRowContext(ctx, sqltext.SQLiteTruncate).Scan(&busy, &pages, &moved)
		_, err = w.conn.raw.ExecContext(ctx, sqltext.SQLiteWait(patience))
	}
	if err != nil {
		w.close()
	}
	w.log.tried()
}
