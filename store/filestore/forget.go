package filestore

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/stet-dev/stet"
)

// erasedChange is what is left of a change. It is shorter than any change, so that it can be filled
// up to the length of the line that it replaces, and cursors stay what they are. A program that
// does not know it sees a change of no key.
type erasedChange struct {
	Schema  int       `json:"schema"`
	At      time.Time `json:"at"`
	From    string    `json:"from,omitempty"`
	To      string    `json:"to,omitempty"`
	Attempt int       `json:"attempt"`
	Version uint64    `json:"version,string"`
	Who     text      `json:"who"`
	Action  text      `json:"action,omitempty"`
	Erased  bool      `json:"erased"`
}

func (c *change) erasedLine(size int) ([]byte, error) {
	b, err := marshal(&erasedChange{c.Schema, c.At, c.From, c.To, c.Attempt, c.Version, c.Who, c.Action, true}, "")
	if err != nil {
		return nil, err
	}
	if line := sealedLine(b, size); line != nil {
		return line, nil
	}
	if pad := size - 1 - len(b); pad >= 0 { // the line is one of an older version, and has no checksum
		return append(append(b, bytes.Repeat([]byte(" "), pad)...), '\n'), nil
	}
	return nil, errors.New("a line has no room for what is left of it") // it was written by hand
}

// Trim implements [stet.Forgetter]. It writes the rest of the history to another file, while no
// change with a note can be made.
func (s *Store) Trim(ctx context.Context, age time.Duration, limit int) (int, error) {
	before, trimmed := s.now().Add(-age), 0
	return s.rewrite(ctx, "trim", func(c *change, _ int) (edit, []byte, error) {
		if trimmed >= limit || c.At.After(before) {
			return stays, nil, nil
		}
		trimmed++
		return cut, nil, nil
	})
}

// Erase implements [stet.Forgetter]. It reads the whole history, and writes it to another file,
// while no change with a note can be made.
func (s *Store) Erase(ctx context.Context, q stet.HistoryQuery) (int, error) {
	if err := q.Erasable(); err != nil {
		return 0, fmt.Errorf("filestore: erase: %w", err)
	}
	erased := 0
	return s.rewrite(ctx, "erase", func(c *change, size int) (edit, []byte, error) {
		if erased >= q.Bound() {
			return stays, nil, nil
		}
		made, err := c.export()
		if err != nil || !q.Matches(&made) {
			return kept, nil, err
		}
		erased++
		line, err := c.erasedLine(size)
		return replaced, line, err
	})
}

// edit is what is to become of a line, which is the oldest that was not yet looked at.
type edit int

const (
	kept     edit = iota // it stays as it is
	replaced             // another one of the same length stands for it
	cut                  // it goes, as did all before it
	stays                // it stays, as do all after it
)

// editor decides about a line of this size.
type editor func(c *change, size int) (how edit, instead []byte, err error)

// rewrite puts another file in the place of audit.jsonl, with what by leaves of its lines. It
// returns how many were cut or replaced. If that is none, the file stays.
//
// The new file is complete and on the disk before it gets the name, so that a crash leaves one of
// the two whole. It is locked until the name is on the disk as well; a process that died before
// that leaves it to the next that adds a line. Readers go on in the file that they have open.
// Those that wait for a lock see that theirs is not the one with the name, and open that.
func (s *Store) rewrite(ctx context.Context, verb string, by editor) (int, error) {
	return write(ctx, s, verb, "", func(ctx context.Context) (n int, err error) {
		if err := s.repairAll(ctx, stet.ID{}); err != nil {
			return 0, err
		}
		old, err := s.audit(os.O_RDONLY, exclusive)
		if err != nil {
			return 0, ignore(err, fs.ErrNotExist)
		}
		defer old.close()
		f, temp, err := s.temp()
		if err != nil {
			return 0, err
		}
		defer func() { _ = release(f) }() // synced before
		next := header{Schema: schema, Rewritten: old.Rewritten + 1, Trimmed: old.Trimmed}
		if n, err = next.fill(ctx, f, old, by); err == nil && n > 0 {
			err = s.fsync(f)
		}
		if err = cmp.Or(err, ctx.Err()); err != nil || n == 0 {
			return 0, errors.Join(err, s.remove(temp))
		}
		if err := s.root.Rename(temp, auditFile); err != nil {
			return 0, errors.Join(err, s.remove(temp))
		}
		if err := s.settleIn("."); err != nil {
			return 0, err
		}
		s.named.Store(next.Rewritten + 1)
		return n, nil
	})
}

// fill writes the header and the lines of the next file.
func (h *header) fill(ctx context.Context, f *os.File, old *audit, by editor) (n int, err error) {
	if _, err := f.Seek(headerSize, io.SeekStart); err != nil {
		return 0, err
	}
	from, to := bufio.NewReader(old.lines()), bufio.NewWriter(f) // which remembers its first error
	for at, how := int64(0), kept; how != stays; {
		line, err := from.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return 0, err
		}
		c, err := parseChange(line)
		var instead []byte
		if err == nil {
			how, instead, err = by(c, len(line))
		}
		if err != nil {
			return 0, fmt.Errorf("%w: %s at byte %d: %w", stet.ErrCorrupt, auditFile, old.begin+at, err)
		}
		at += int64(len(line))
		switch how {
		case cut:
			h.Trimmed = old.Trimmed + at
			n++
		case replaced:
			_, _ = to.Write(instead)
			n++
		case kept, stays:
			_, _ = to.Write(line)
		}
	}
	if n == 0 {
		return 0, nil
	}
	if _, err := io.Copy(to, from); err != nil {
		return 0, err
	}
	first, err := h.line()
	if err == nil {
		err = to.Flush()
	}
	if err == nil {
		_, err = f.WriteAt(first, 0)
	}
	return n, err
}
