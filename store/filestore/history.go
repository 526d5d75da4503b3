package filestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/walk"
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
	p, err := work(ctx, s, "history", "", func(ctx context.Context) (p walk.Page[stet.Change, int64], err error) {
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
		p.Most, p.Look = q.Bound(), maxLook
		for l, err := range backwards(f, end) {
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return p, err
			}
			c, err := parseChange(l.text)
			var made stet.Change
			if err == nil {
				made, err = c.export()
			}
			if err != nil {
				return p, fmt.Errorf("%w: %s at byte %d: %w", stet.ErrCorrupt, auditFile, l.at, err)
			}
			if !p.Add(l.at, made, q.Matches(&made)) {
				break
			}
		}
		return p, nil
	})
	if err != nil {
		return nil, "", err
	}
	return p.Rows, p.Next(func(at int64) string { return strconv.FormatInt(at, 10) }), nil
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
func holds(f io.ReaderAt, end int64, version uint64) (bool, error) {
	for l, err := range backwards(f, end) {
		if err != nil {
			return false, err
		}
		if c, err := parseChange(l.text); err == nil && c.Version == version {
			return true, nil
		}
	}
	return false, nil
}

// whole returns the size of f without the incomplete line that a crash may have left at its end.
func whole(f *os.File) (size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	for l, err := range backwards(f, info.Size()) {
		if err != nil || !bytes.HasSuffix(l.text, []byte("\n")) {
			return l.at, err
		}
		break
	}
	return info.Size(), nil
}

// line is a line of the history, and where it begins.
type line struct {
	at   int64
	text []byte
}

// backwards goes through the lines of f up to end, the last first.
func backwards(f io.ReaderAt, end int64) iter.Seq2[line, error] {
	const blockSize = 64 << 10
	return func(yield func(line, error) bool) {
		var rest []byte // of a line that begins further up
		for at := end; at > 0; {
			n := min(at, blockSize)
			at -= n
			b := slices.Grow(make([]byte, n), len(rest))
			if _, err := f.ReadAt(b, at); err != nil {
				yield(line{}, err)
				return
			}
			b = append(b, rest...)
			for len(b) > 0 {
				begin := bytes.LastIndexByte(b[:len(b)-1], '\n') + 1
				if begin == 0 && at > 0 {
					break
				}
				if !yield(line{at + int64(begin), b[begin:]}, nil) {
					return
				}
				b = b[:begin]
			}
			rest = b
		}
	}
}
