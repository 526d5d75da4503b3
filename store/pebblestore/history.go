package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/internal/walk"
)

// lookBack is how many changes a page of the history reads at most.
const lookBack = 5_000

// entryOf encodes what a change says of a record, while its caller may still change the note.
func entryOf(h *stet.Head) []byte {
	return codec.AppendHead(nil, &stet.Head{ID: h.ID, Tag: h.Tag, State: h.State, Attempt: h.Attempt, Note: h.Note})
}

// addChange adds an entry to the history.
func (s *Store) addChange(b *pebble.Batch, id stet.ID, from stet.State, at time.Time, entry []byte) error {
	key := number([]byte{changeKey}, s.changes.Add(1))
	v := number([]byte{codec.Format, byte(from)}, micros(at))
	err := b.Set(key, sealed(key, append(v, entry...)), nil)
	if (id != stet.ID{}) {
		err = errors.Join(err, b.Set(append(changesOf(id), key[1:]...), nil, nil))
	}
	return err
}

// entryAt is where the entry begins behind the format, the state before and the instant.
const entryAt = 2 + 8

func change(key, v []byte) (c stet.Change, err error) {
	if v, err = opened(key, v); err != nil {
		return c, err
	}
	if len(v) < entryAt {
		return c, fmt.Errorf("%w: it is too short", stet.ErrCorrupt)
	}
	var h stet.Head
	if err := codec.Head(string(v[entryAt:]), &h); err != nil || h.Note == nil {
		return c, fmt.Errorf("%w: %w", stet.ErrCorrupt, err)
	}
	return stet.Change{ID: h.ID, Tag: h.Tag, From: stet.State(v[1]), To: h.State, Attempt: h.Attempt,
		At: instant(binary.BigEndian.Uint64(v[2:])), Note: *h.Note}, nil
}

// Append implements [stet.Historian].
func (s *Store) Append(ctx context.Context, c stet.Change) error {
	entry := entryOf(&stet.Head{ID: c.ID, Tag: c.Tag, Attempt: c.Attempt, Note: &c.Note})
	_, err := work(ctx, s, "append", nil, func() (struct{}, error) {
		b := s.db.NewBatch()
		return struct{}{}, s.commit(b, s.addChange(b, c.ID, 0, s.now(), entry))
	})
	return err
}

// History implements [stet.Historian]. The changes of one record are found directly; with another
// filter a page reads at most 5,000 entries.
func (s *Store) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	p, err := work(ctx, s, "history", nil, func() (p walk.Page[stet.Change, string], err error) {
		after, err := decodeCursor(q.After)
		if err != nil || q.After != "" && len(after) != 8 {
			return p, fmt.Errorf("%q is no cursor", q.After)
		}
		snap, err := s.settled()
		if err != nil {
			return p, err
		}
		defer func() { err = errors.Join(err, snap.Close()) }()
		prefix := []byte{changeKey}
		if (q.ID != stet.ID{}) {
			prefix = changesOf(q.ID)
		}
		p.Most, p.Look = q.Bound(), lookBack
		err = eachKey(snap, prefix, string(after), true, func(rest string) (bool, error) {
			if ctx.Err() != nil || !p.Takes(rest) {
				return false, ctx.Err()
			}
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
				p.Rows = append(p.Rows, c)
			}
			return true, nil
		})
		return p, err
	})
	return p.Rows, p.Next(encodeCursor), err
}
