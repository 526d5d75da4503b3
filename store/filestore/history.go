package filestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/stet-dev/stet"
)

// auditFile is the history: one line of JSON for each change, the oldest first. It is locked while
// a line is added, and it only grows.
const auditFile = "audit.jsonl"

// change is an entry of the history as it stands in its line.
type change struct {
	Schema  int       `json:"schema"`
	At      time.Time `json:"at"`
	Scope   text      `json:"scope"`
	Key     text      `json:"key"`
	From    string    `json:"from,omitempty"`
	To      string    `json:"to,omitempty"`
	Attempt int       `json:"attempt"`
	Version uint64    `json:"version,string"` // of the record after it: what tells one change from all others; 0 where none was changed
	note
	Tag text `json:"tag,omitempty"`
}

func changeOf(old, h *stet.Head) *change {
	c := lineOf(h.ID, h.Tag, h.Attempt, h.Note)
	c.At, c.From, c.To, c.Version = h.UpdatedAt, old.State.String(), h.State.String(), uint64(h.Version)
	return c
}

func lineOf(id stet.ID, tag string, attempt int, n *stet.Note) *change {
	return &change{Schema: schema, Scope: text(id.Scope), Key: text(id.Key), Tag: text(tag), Attempt: attempt, note: noteOf(n)}
}

func (c *change) line() ([]byte, error) {
	b, err := marshal(c, "")
	return append(b, '\n'), err
}

func parseChange(line []byte) (*change, error) {
	var c change
	if json.Unmarshal(line, &c) != nil || c.Schema != schema {
		return nil, fmt.Errorf("not a change of schema %d", schema)
	}
	return &c, nil
}

func (c *change) id() stet.ID { return stet.ID{Scope: stet.Scope(c.Scope), Key: stet.Key(c.Key)} }

func (c *change) export() (stet.Change, error) {
	out := stet.Change{ID: c.id(), Tag: string(c.Tag), Attempt: c.Attempt, At: c.At.UTC(), Note: c.note.export()}
	if c.From == "" && c.To == "" && c.Version == 0 { // no record was changed
		return out, nil
	}
	var err, err2 error
	out.From, err = stet.ParseState(c.From)
	out.To, err2 = stet.ParseState(c.To)
	if err != nil || err2 != nil {
		return stet.Change{}, errors.New("a change of states that are none")
	}
	return out, nil
}

// History implements [stet.Historian], in the order in which the changes were added. It reads
// audit.jsonl from its end, and waits for changes that are being made. A line that cannot be read
// is [stet.ErrCorrupt], because a history with gaps is no evidence.
func (s *Store) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	type page struct {
		changes []stet.Change
		next    string
	}
	p, err := work(ctx, s, "history", "", func(ctx context.Context) (p page, err error) {
		if err := s.repairAll(ctx); err != nil {
			return p, err
		}
		f, end, err := s.history()
		if err != nil {
			return p, ignore(err, fs.ErrNotExist)
		}
		defer func() { _ = f.Close() }()
		if q.After != "" {
			if end, err = cursor(f, end, q.After); err != nil {
				return p, err
			}
		}
		n, looked, last := q.Bound(), 0, ""
		err = backwards(f, end, func(at int64, line []byte) (more bool, err error) {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			c, err := parseChange(line)
			var made stet.Change
			if err == nil {
				made, err = c.export()
			}
			if err != nil {
				return false, fmt.Errorf("%w: %s at byte %d: %w", stet.ErrCorrupt, auditFile, at, err)
			}
			matches := q.Matches(&made)
			if looked == maxLook || matches && len(p.changes) == n { // there is one more, or may be
				p.next = last
				return false, nil
			}
			if matches {
				p.changes = append(p.changes, made)
			}
			looked, last = looked+1, strconv.FormatInt(at, 10)
			return true, nil
		})
		return p, err
	})
	if err != nil {
		return nil, "", err
	}
	return p.changes, p.next, nil
}

// maxLook is how many lines a page reads. The history has no index, and a reader must not wait
// until all of it is read.
const maxLook = 1000

// Append implements [stet.Historian].
func (s *Store) Append(ctx context.Context, c stet.Change) error {
	entry := lineOf(c.ID, c.Tag, c.Attempt, &c.Note)
	_, err := work(ctx, s, "append", "", func(context.Context) (struct{}, error) {
		entry.At = s.now()
		return struct{}{}, s.add(entry, false)
	})
	return err
}

// cursor returns where the page before ended: at the beginning of a line.
func cursor(f io.ReaderAt, end int64, after string) (int64, error) {
	at, err := strconv.ParseInt(after, 10, 64)
	var before [1]byte
	if err == nil && at > 0 && at < end {
		if _, err := f.ReadAt(before[:], at-1); err != nil {
			return 0, err
		}
	}
	if at != 0 && before[0] != '\n' || err != nil {
		return 0, fmt.Errorf("%q is no cursor", after)
	}
	return at, nil
}

// history opens audit.jsonl and returns how much of it is certain: a line that is being added may
// be taken back.
func (s *Store) history() (f *os.File, size int64, err error) {
	if f, err = s.root.OpenFile(auditFile, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, 0, err
	}
	if err = s.isAudit(f); err == nil {
		err = shared.wait(f)
	}
	if err == nil {
		if size, err = whole(f); err == nil {
			err = none.wait(f)
		}
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}

// add adds a change durably. If once is set, it first checks whether the change is there.
func (s *Store) add(c *change, once bool) error {
	b, err := c.line()
	if err != nil {
		return err
	}
	f, err := s.root.OpenFile(auditFile, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := errors.Join(exclusive.wait(f), s.isAudit(f)); err != nil {
		return err
	}
	size, err := whole(f)
	if err != nil {
		return err
	}
	if once {
		if there, err := holds(f, size, c.Version); err != nil {
			return err
		} else if there {
			return s.fsync(f)
		}
	}
	if size == 0 {
		if err := s.sync("."); err != nil {
			return err
		}
	}
	if err := f.Truncate(size); err != nil { // half a line, whose writer died
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = s.fsync(f)
	}
	if err != nil {
		return errors.Join(err, f.Truncate(size)) // it is added again: see repair
	}
	return nil
}

// isAudit checks that f is still audit.jsonl, and a regular file. Its error is not one of those for
// records.
func (s *Store) isAudit(f *os.File) error {
	if err := s.still(auditFile, f); err != nil {
		return fmt.Errorf("%s is not what it was, or no file: %v", auditFile, err)
	}
	return nil
}

// holds reports whether the change to that version is in the history.
func holds(f io.ReaderAt, end int64, version uint64) (there bool, err error) {
	err = backwards(f, end, func(_ int64, line []byte) (bool, error) {
		c, err := parseChange(line)
		there = err == nil && c.Version == version
		return !there, nil
	})
	return there, err
}

// whole returns the size of f without the incomplete line that a crash may have left at its end.
func whole(f *os.File) (size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size = info.Size()
	err = backwards(f, size, func(at int64, line []byte) (bool, error) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			size = at
		}
		return false, nil
	})
	return size, err
}

// backwards visits the lines of f up to end, the last first, until visit returns false.
func backwards(f io.ReaderAt, end int64, visit func(at int64, line []byte) (more bool, err error)) error {
	const blockSize = 64 << 10
	var rest []byte // of a line that begins further up
	for at := end; at > 0; {
		n := min(at, blockSize)
		at -= n
		b := slices.Grow(make([]byte, n), len(rest))
		if _, err := f.ReadAt(b, at); err != nil {
			return err
		}
		b = append(b, rest...)
		for len(b) > 0 {
			begin := bytes.LastIndexByte(b[:len(b)-1], '\n') + 1
			if begin == 0 && at > 0 {
				break
			}
			if more, err := visit(at+int64(begin), b[begin:]); err != nil || !more {
				return err
			}
			b = b[:begin]
		}
		rest = b
	}
	return nil
}
