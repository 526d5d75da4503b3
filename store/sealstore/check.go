package sealstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
)

// Errors of [Check], beside [ErrPlain].
var (
	// ErrNames is returned if stored names do not fit [Keys].Names.
	ErrNames = errors.New("sealstore: the store has names of another kind")
	// ErrSealed is returned if there are sealed records, and no keys.
	ErrSealed = errors.New("sealstore: the store has sealed records")
	// ErrKey is returned if a key has other bytes than the one of this id that sealed records.
	ErrKey = errors.New("sealstore: records were sealed with another key of this id")
)

// Check reads some records to detect a store that was filled by other rules than it is to be used
// with. A store without [stet.Lister] cannot be checked.
//
// For a [*Store], [ErrNames] means that stored names are plain although they should be hashed,
// hashed although they should be plain, or hashed with another key. No engine may use such a store:
// it would not find used keys, and run their requests again. [ErrPlain] means that stored records
// are not sealed although AcceptPlain is false. Each of them would be refused. [ErrKey] means that
// of the records looked at that a key has sealed, by its id, none could be opened with it: each of
// them would be refused, and what is sealed now could not be opened with the right key.
//
// For any other store, which is to be used without a seal, [ErrSealed] means that there are sealed
// records: without the keys they cannot be replayed, and if their names are hashed, their requests
// would run again.
func Check(ctx context.Context, s stet.Store) error {
	sealed, inner := (*Store)(nil), s
	if own, ok := s.(*Store); ok {
		sealed, inner = own, own.inner
	}
	l, ok := stet.As[stet.Lister](inner)
	if !ok {
		return nil
	}
	heads, _, err := l.List(ctx, stet.Query{})
	if err != nil {
		return fmt.Errorf("sealstore: looking at what is stored: %w", err)
	}
	var tried tries
	for i := range heads {
		if sealed == nil && unopened(&heads[i]) {
			return ErrSealed
		} else if sealed != nil {
			err = sealed.checkNames(&heads[i], &tried)
		}
		if err != nil {
			return err
		}
	}
	if sealed != nil {
		if err := sealed.checkBodies(ctx, heads[:min(len(heads), maxChecked)], &tried); err != nil {
			return err
		}
		return tried.err()
	}
	if len(heads) == 0 {
		return nil
	}
	if r, err := s.Get(ctx, heads[0].ID); err == nil && !isPlain(&r.Body) {
		return ErrSealed
	}
	return nil
}

// maxChecked is how many records are read whole. Damage of some of them is theirs.
const maxChecked = 5

// tries counts the sealed values that were opened, and those that could not be, by the id of their
// key.
type tries map[string]*struct{ opened, broken int }

func (t *tries) add(sealed []byte, err error) {
	id, ok := keyOf(sealed)
	if !ok {
		return
	}
	if *t == nil {
		*t = tries{}
	}
	n := (*t)[id]
	if n == nil {
		n = new(struct{ opened, broken int })
		(*t)[id] = n
	}
	switch {
	case err == nil:
		n.opened++
	case errors.Is(err, errSeal):
		n.broken++
	}
}

func (t tries) err() error {
	for id, n := range t {
		if n.opened == 0 && n.broken > 0 {
			return fmt.Errorf("%w: %q", ErrKey, id)
		}
	}
	return nil
}

// checkBodies opens what was stored with some heads.
func (s *Store) checkBodies(ctx context.Context, heads []stet.Head, tried *tries) error {
	for i := range heads {
		r, err := s.inner.Get(ctx, heads[i].ID)
		switch {
		case errors.Is(err, stet.ErrNotFound), errors.Is(err, stet.ErrCorrupt):
			continue
		case err != nil:
			return fmt.Errorf("sealstore: looking at what is stored: %w", err)
		case isPlain(&r.Body) && i == 0 && !s.plain && s.names == nil: // the newest; older ones are refused one by one
			return ErrPlain
		case isPlain(&r.Body):
			continue
		}
		_, err = s.sealer.open(ofBody, r.Progress, boundBody(&r.Head))
		tried.add(r.Progress, err)
	}
	return nil
}

func (s *Store) checkNames(h *stet.Head, tried *tries) error {
	text, sealed := h.Meta[metaName]
	switch sealed = sealed && hashed(h.ID); {
	case s.names == nil && sealed:
		return fmt.Errorf(`%w: they are hashed, and there is no key "names"`, ErrNames)
	case s.names == nil:
		return nil
	case !sealed:
		return fmt.Errorf(`%w: they are not hashed; with a key "names" a store begins empty`, ErrNames)
	}
	plain, err := s.sealer.openText(ofHead, text, boundHead(h))
	if b, unread := sealedText(text); unread == nil {
		tried.add(b, err)
	}
	if err != nil {
		return nil // damage of one record, reported when that record is read
	}
	if own, err := readHead(plain); err == nil && s.names.id(own.ID) != h.ID {
		return fmt.Errorf(`%w: they are hashed with another key than "names"`, ErrNames)
	}
	return nil
}
