package sealstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
)

// Errors of [Store.CheckSealed] and [CheckPlain], beside [ErrPlain].
var (
	ErrNames  = errors.New("sealstore: the store has names of another kind")
	ErrSealed = errors.New("sealstore: the store has sealed records")
)

// CheckSealed looks at some records for signs that the store was filled by other rules. [ErrNames]:
// names are plain where they are to be hashed, hashed where they are to be plain, or hashed with
// another key; keys that were used would not be found, and would run again, so that no engine may
// stand on such a store. [ErrPlain]: records are not sealed, and plain ones are not accepted; each
// would be refused. What cannot list cannot be checked.
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
		return nil // of its key alone, and said when that is asked for
	}
	if id, _, err := readHead(plain); err == nil && s.names.id(id) != h.ID {
		return fmt.Errorf(`%w: they are hashed with another key than "names"`, ErrNames)
	}
	return nil
}

// CheckPlain looks at some records of a store that is about to be used without a seal. [ErrSealed]:
// there are sealed ones, which nobody could replay; and where their names are hashed, keys that
// were used would run again. What cannot list cannot be checked.
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

// some lists a page of what is in the store.
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
