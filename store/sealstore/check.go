package sealstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
)

// Errors of [Store.CheckSealed] and [CheckPlain], beside [ErrPlain].
var (
	// ErrNames is returned if stored names do not fit [Keys].Names.
	ErrNames = errors.New("sealstore: the store has names of another kind")
	// ErrSealed is returned if there are sealed records, and no keys.
	ErrSealed = errors.New("sealstore: the store has sealed records")
)

// CheckSealed reads some records to detect a store that was filled by other rules. A store without
// [stet.Lister] cannot be checked.
//
// [ErrNames] means that stored names are plain although they should be hashed, hashed although they
// should be plain, or hashed with another key. No engine may use such a store: it would not find
// used keys, and run their requests again.
//
// [ErrPlain] means that stored records are not sealed although AcceptPlain is false. Each of them
// would be refused.
func (s *Store) CheckSealed(ctx context.Context) error {
	heads, err := some(ctx, s.inner)
	if err != nil {
		return err
	}
	for i := range heads {
		if err := s.checkNames(&heads[i]); err != nil {
			return err
		}
	}
	if len(heads) > 0 && s.names == nil {
		if _, err := s.Get(ctx, heads[0].ID); errors.Is(err, ErrPlain) {
			return ErrPlain
		}
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
	if id, _, err := readHead(plain); err == nil && s.names.id(id) != h.ID {
		return fmt.Errorf(`%w: they are hashed with another key than "names"`, ErrNames)
	}
	return nil
}

// CheckPlain reads some records of a store that is to be used without a seal. [ErrSealed] means
// that there are sealed ones: without the keys they cannot be replayed, and if their names are
// hashed, their requests would run again. A store without [stet.Lister] cannot be checked.
func CheckPlain(ctx context.Context, s stet.Store) error {
	heads, err := some(ctx, s)
	if err != nil {
		return err
	}
	for i := range heads {
		if unopened(&heads[i]) {
			return ErrSealed
		}
	}
	if len(heads) > 0 {
		if r, err := s.Get(ctx, heads[0].ID); err == nil && !isPlain(&r.Body) {
			return ErrSealed
		}
	}
	return nil
}

// some returns one page of the records in the store.
func some(ctx context.Context, s stet.Store) ([]stet.Head, error) {
	l, ok := stet.As[stet.Lister](s)
	if !ok {
		return nil, nil
	}
	heads, _, err := l.List(ctx, stet.Query{})
	if err != nil {
		return nil, fmt.Errorf("sealstore: looking at what is stored: %w", err)
	}
	return heads, nil
}
