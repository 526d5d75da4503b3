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
)

// Check reads some records to detect a store that was filled by other rules than it is to be used
// with. A store without [stet.Lister] cannot be checked.
//
// For a [*Store], [ErrNames] means that stored names are plain although they should be hashed,
// hashed although they should be plain, or hashed with another key. No engine may use such a store:
// it would not find used keys, and run their requests again. [ErrPlain] means that stored records
// are not sealed although AcceptPlain is false. Each of them would be refused.
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
	for i := range heads {
		if sealed == nil && unopened(&heads[i]) {
			return ErrSealed
		} else if sealed != nil {
			err = sealed.checkNames(&heads[i])
		}
		if err != nil {
			return err
		}
	}
	if len(heads) == 0 || sealed != nil && sealed.names != nil {
		return nil
	}
	switch r, err := s.Get(ctx, heads[0].ID); {
	case errors.Is(err, ErrPlain):
		return ErrPlain
	case sealed == nil && err == nil && !isPlain(&r.Body):
		return ErrSealed
	}
	return nil
}

func (s *Store) checkNames(h *stet.Head) error {
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
	if err != nil {
		return nil // damage of one record, reported when that record is read
	}
	if own, err := readHead(plain); err == nil && s.names.id(own.ID) != h.ID {
		return fmt.Errorf(`%w: they are hashed with another key than "names"`, ErrNames)
	}
	return nil
}
