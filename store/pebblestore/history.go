package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// lookBack is how many changes a page of the history reads at most.
const lookBack = 5_000

// appendNote encodes a note while its caller may still change it.
func appendNote(n *stet.Note) []byte { return codec.AppendHead(nil, &stet.Head{Note: n}) }

// addChange adds an entry to the history. noted is its note, encoded.
func (s *Store) addChange(b *pebble.Batch, c *stet.Change, noted []byte) error {
	key := number([]byte{changeKey}, s.changes.Add(1))
	about := codec.AppendHead(nil, &stet.Head{ID: c.ID, Tag: c.Tag, State: c.To, Attempt: c.Attempt})
	v := number([]byte{codec.Format, byte(c.From)}, micros(c.At))
	v = append(binary.AppendUvarint(v, uint64(len(about))), about...)
	err := b.Set(key, sealed(key, append(v, noted...)), nil)
	if (c.ID != stet.ID{}) {
		err = errors.Join(err, b.Set(append(changesOf(c.ID), key[1:]...), nil, nil))
	}
	return err
}

func change(key, v []byte) (c stet.Change, err error) {
	if v, err = opened(key, v); err != nil {
		return c, err
	}
	if len(v) < 10 {
		return c, fmt.Errorf("%w: it is too short", stet.ErrCorrupt)
	}
	n, size := binary.Uvarint(v[10:])
	rest := v[10+max(size, 0):]
	if size <= 0 || n > uint64(len(rest)) {
		return c, fmt.Errorf("%w: it is torn", stet.ErrCorrupt)
	}
	var about, noted stet.Head
	if err := errors.Join(codec.Head(string(rest[:n]), &about), codec.Head(string(rest[n:]), &noted)); err != nil || noted.Note == nil {
		return c, fmt.Errorf("%w: %w", stet.ErrCorrupt, err)
	}
	return stet.Change{ID: about.ID, Tag: about.Tag, From: stet.State(v[1]), To: about.State, Attempt: about.Attempt,
		At: instant(binary.BigEndian.Uint64(v[2:])), Note: *noted.Note}, nil
}

// Append implements [stet.Historian].
func (s *Store) Append(ctx context.Context, c stet.Change) error {
	noted := appendNote(&c.Note)
	_, err := work(ctx, s, "append", nil, func() (struct{}, error) {
		b := s.db.NewBatch()
		c.From, c.To, c.At = 0, 0, s.now()
		err := s.addChange(b, &c, noted)
		if err == nil {
			err = s.commit(b)
		}
		return struct{}{}, err
	})
	return err
}

// changesPage is a page of the history.
type changesPage struct {
	changes []stet.Change
	next    string
}

// History implements [stet.Historian]. The changes of one record are found directly; with another
// filter a page reads at most 5,000 entries.
func (s *Store) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	p, err := work(ctx, s, "history", nil, func() (p changesPage, err error) {
		after, err := decodeCursor(q.After)
		if err != nil || q.After != "" && len(after) != 8 {
			return p, fmt.Errorf("%q is no cursor", q.After)
		}
		snap, err := s.settled()
		if err != nil {
			return p, err
		}
		defer func() { err = errors.Join(err, snap.Close()) }()
		prefix, left, last := []byte{changeKey}, lookBack, ""
		if (q.ID != stet.ID{}) {
			prefix = changesOf(q.ID)
		}
		err = eachKey(snap, prefix, string(after), true, func(rest string) (bool, error) {
			switch {
			case ctx.Err() != nil:
				return false, ctx.Err()
			case len(p.changes) == q.Bound() || left == 0: // there is one more
				p.next = encodeCursor([]byte(last))
				return false, nil
			}
			last, left = rest, left-1
			key := append([]byte{changeKey}, rest...)
			v, err := value(snap, key)
			var c stet.Change
			if err == nil {
				c, err = change(key, v)
			}
			switch {
			case err != nil && !unreadable(err):
				return false, err
			case err == nil && q.Matches(&c):
				p.changes = append(p.changes, c)
			}
			return true, nil
		})
		return p, err
	})
	return p.changes, p.next, err
}
