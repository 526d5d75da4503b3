package filestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/walk"
)

// auditFile is the history: one line of JSON for each change, the oldest first. It is locked while
// a line is added. It only grows, until [Store.Trim] or [Store.Erase] puts another file in its
// place: see rewrite.
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
	Tag    text `json:"tag,omitempty"`
	Erased bool `json:"erased,omitempty"` // see erasedChange
}

func changeOf(old, h *stet.Head) *change {
	c := lineOf(h.ID, h.Tag, h.Attempt, h.Note)
	c.At, c.From, c.To, c.Version = h.UpdatedAt, old.State.String(), h.State.String(), uint64(h.Version)
	return c
}

func lineOf(id stet.ID, tag string, attempt int, n *stet.Note) *change {
	return &change{Schema: schema, Scope: text(id.Scope), Key: text(id.Key), Tag: text(tag), Attempt: attempt, note: noteOf(n)}
}

// A line ends with the checksum of what is before the last comma. Lines of older versions have
// none.
const lineSeal = ",\"crc32c\":\"%08x\"}\n"

const lineSealLen = len(",\"crc32c\":\"00000000\"}\n")

func (c *change) line() ([]byte, error) {
	b, err := marshal(c, "")
	return sealedLine(b, len(b)-1+lineSealLen), err
}

// sealedLine makes a line of this size of a JSON object, filled up with blanks before its checksum.
// It is nil if that is too little.
func sealedLine(object []byte, size int) []byte {
	b := bytes.TrimSuffix(object, []byte("}"))
	pad := size - len(b) - lineSealLen
	if pad < 0 {
		return nil
	}
	b = append(b, bytes.Repeat([]byte(" "), pad)...)
	return fmt.Appendf(b, lineSeal, crc32.Checksum(b, castagnoli))
}

// checked reports whether a line ends with a checksum, and whether it is the right one, whatever
// its last byte is.
func checked(line []byte) (has, right bool) {
	begin, _, _ := strings.Cut(lineSeal, "%")
	at := len(line) - lineSealLen
	if at < 0 || !bytes.HasPrefix(line[at:], []byte(begin)) {
		return false, false
	}
	seal := fmt.Sprintf(lineSeal, crc32.Checksum(line[:at], castagnoli))
	return true, string(line[at:len(line)-1]) == seal[:len(seal)-1]
}

func parseChange(line []byte) (*change, error) {
	var c change
	if has, right := checked(line); has && !right {
		return nil, errors.New("torn or changed: the checksum is wrong")
	}
	if json.Unmarshal(line, &c) != nil || c.Schema != schema {
		return nil, fmt.Errorf("not a change of schema %d", schema)
	}
	return &c, nil
}

func (c *change) id() stet.ID { return stet.ID{Scope: stet.Scope(c.Scope), Key: stet.Key(c.Key)} }

func (c *change) export() (stet.Change, error) {
	out := stet.Change{ID: c.id(), Tag: string(c.Tag), Attempt: c.Attempt, At: c.At.UTC(), Note: c.note.export()}
	if c.Erased {
		out = out.Erased()
	}
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
// is [stet.ErrCorrupt], because a history with gaps is no evidence; so is a change that is pending
// and cannot be read, unless the history of another key is asked for.
func (s *Store) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	p, err := work(ctx, s, "history", "", func(ctx context.Context) (p walk.Page[stet.Change, int64], err error) {
		if err := s.repairAll(ctx, q.ID); err != nil {
			return p, err
		}
		a, err := s.history()
		if err != nil {
			return p, ignore(err, fs.ErrNotExist)
		}
		defer a.close()
		end := a.length
		if q.After != "" {
			if end, err = a.before(q.After); err != nil {
				return p, err
			}
		}
		p.Most, p.Look = q.Bound(), maxLook
		for l, err := range backwards(a.lines(), end) {
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return p, err
			}
			c, err := parseChange(l.text)
			var made stet.Change
			if err == nil {
				made, err = c.export()
			}
			if err != nil {
				return p, errLine(a.begin+l.at, err)
			}
			if !p.Add(a.Trimmed+l.at, made, q.Matches(&made)) {
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

// errLine says that the line at a place of the history cannot be read.
func errLine(at int64, err error) error {
	return fmt.Errorf("%w: %s at byte %d: %w", stet.ErrCorrupt, auditFile, at, err)
}

// maxLook is how many lines a page reads. The history has no index, and a reader must not wait
// until all of it is read.
const maxLook = 1000

// Append implements [stet.Historian].
func (s *Store) Append(ctx context.Context, c stet.Change) error {
	entry := lineOf(c.ID, c.Tag, c.Attempt, &c.Note)
	_, err := write(ctx, s, "append", "", func(context.Context) (struct{}, error) {
		entry.At = s.now()
		return struct{}{}, s.add(entry, false)
	})
	return err
}

// audit is audit.jsonl, open and locked.
type audit struct {
	*os.File
	header
	begin, length int64 // of the lines of changes that are certain: one that is being added may be taken back
}

// header is the first line of a file that was put in the place of another, filled up with blanks.
// The first file has none. A program that does not know it sees an entry that says nothing.
type header struct {
	Schema    int   `json:"schema"`
	Rewritten int64 `json:"rewritten"` // the how manyth file it is, beside the first
	Trimmed   int64 `json:"trimmed"`   // how many bytes of lines came before those that are left
}

const headerSize = 128

func (h *header) line() ([]byte, error) {
	b, err := json.Marshal(h)
	return sealedLine(b, headerSize), err
}

// audit opens audit.jsonl as soon as it can be locked. A call that waited for a file that
// was replaced meanwhile waits for the other one.
func (s *Store) audit(flag int, l lock) (*audit, error) {
	for {
		f, err := s.root.OpenFile(auditFile, flag|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		a := &audit{File: f}
		if err = s.isAudit(f); err == nil {
			err = l.wait(f)
		}
		if err == nil {
			err = s.isAudit(f)
		}
		if err == nil {
			err = a.measure()
		}
		if err == nil {
			return a, nil
		}
		a.close()
		if !errors.Is(err, errBusy) {
			return nil, err
		}
	}
}

// close releases the lock. What was written was synced before.
func (a *audit) close() { _ = release(a.File) }

// measure finds the lines. An incomplete one, which a crash may have left at the end, is none; a
// complete line whose last byte is another one than it was is none that a crash left.
func (a *audit) measure() error {
	info, err := a.Stat()
	if err != nil {
		return err
	}
	a.length = info.Size()
	for l, err := range backwards(a, a.length) {
		if err != nil {
			return err
		}
		if _, complete := checked(l.text); !complete && !bytes.HasSuffix(l.text, []byte("\n")) {
			a.length = l.at
		}
		break
	}
	var first [headerSize]byte
	if n, err := a.ReadAt(first[:], 0); n < headerSize {
		return ignore(err, io.EOF)
	}
	if _, right := checked(first[:]); right && json.Unmarshal(first[:], &a.header) == nil && a.Rewritten > 0 {
		a.begin = headerSize
	} else {
		a.header = header{}
	}
	a.length -= a.begin
	return nil
}

// lines are the lines of changes.
func (a *audit) lines() *io.SectionReader { return io.NewSectionReader(a, a.begin, a.length) }

// before returns where the page before ended, at the beginning of a line. A cursor is a place among
// all lines that there ever were: a line keeps its length when it is erased, and the header says
// how many were trimmed.
func (a *audit) before(after string) (int64, error) {
	place, err := strconv.ParseUint(after, 10, 63)
	at := int64(place) - a.Trimmed
	if err == nil && at <= 0 {
		return 0, nil // all that came before it is gone
	}
	var last [1]byte
	if err == nil && at < a.length {
		if _, err := a.lines().ReadAt(last[:], at-1); err != nil {
			return 0, err
		}
	}
	if last[0] != '\n' || err != nil {
		return 0, fmt.Errorf("%q is no cursor", after)
	}
	return at, nil
}

// history opens audit.jsonl to read what is certain.
func (s *Store) history() (*audit, error) {
	a, err := s.audit(os.O_RDONLY, shared)
	if err != nil {
		return nil, err
	}
	if err := none.wait(a.File); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// add adds a change durably. If once is set, it first checks whether the change is there.
func (s *Store) add(c *change, once bool) error {
	b, err := c.line()
	if err != nil {
		return err
	}
	a, err := s.audit(os.O_RDWR|os.O_CREATE|os.O_APPEND, exclusive)
	if err != nil {
		return err
	}
	defer a.close()
	if once {
		if there, err := a.holds(c.Version); err != nil {
			return err
		} else if there {
			return s.fsync(a.File)
		}
	}
	// Its name may have been given to it by a process that died before it had synced that.
	if a.length == 0 || s.named.Load() != a.Rewritten+1 {
		if err := s.sync("."); err != nil {
			return err
		}
		s.named.Store(a.Rewritten + 1)
	}
	size := a.begin + a.length
	if err := a.Truncate(size); err != nil { // half a line, whose writer died
		return err
	}
	if ends, err := endsLine(a, size); err != nil {
		return err
	} else if !ends { // the end of the last line is damaged: that is read, and nothing after it with it
		b = append([]byte{'\n'}, b...)
	}
	_, err = a.Write(b)
	if err == nil {
		err = s.fsync(a.File)
	}
	if err != nil {
		return errors.Join(err, a.Truncate(size)) // it is added again: see repair
	}
	return nil
}

// isAudit checks that f is still audit.jsonl, and a regular file. The error is errBusy if another
// file is in its place, and otherwise not one of those for records.
func (s *Store) isAudit(f *os.File) error {
	err := s.still(auditFile, f)
	if err == nil || errors.Is(err, errBusy) {
		return err
	}
	return fmt.Errorf("%s is not what it was, or no file: %v", auditFile, err)
}

// holds reports whether the change to that version is in the history.
func (a *audit) holds(version uint64) (bool, error) {
	for l, err := range backwards(a.lines(), a.length) {
		if err != nil {
			return false, err
		}
		if c, err := parseChange(l.text); err == nil && c.Version == version {
			return true, nil
		}
	}
	return false, nil
}

// endsLine reports whether a line ends at size.
func endsLine(f io.ReaderAt, size int64) (bool, error) {
	var last [1]byte
	if size == 0 {
		return true, nil
	}
	_, err := f.ReadAt(last[:], size-1)
	return last[0] == '\n', err
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
