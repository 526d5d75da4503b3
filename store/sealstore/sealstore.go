package sealstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

// Config of a Store. Keys are required; the rest has defaults.
type Config struct {
	Keys Keys
	// AcceptPlain reads records that are not sealed, for as long as a store is migrated. It cannot
	// be had with hashed names.
	AcceptPlain bool
	// CompressOver is the size from which on what is sealed is compressed before, in bytes. 0 means
	// [DefaultCompressOver], and less than 0 compresses nothing.
	CompressOver int
	// MaxOpened bounds what a compressed body may become when it is opened, in bytes. What is
	// larger is stored uncompressed. Default [DefaultMaxOpened].
	MaxOpened int64
}

// Defaults of [Config].
const (
	DefaultCompressOver = 1 << 10
	DefaultMaxOpened    = 64 << 20
)

// Store seals what it writes to the store it wraps, and opens what it reads. It is safe for
// concurrent use.
type Store struct {
	inner  stet.Store
	sealer *sealer
	names  names
	plain  bool // unsealed records are read
	chain  stet.Store
}

var (
	_ stet.Store  = (*Store)(nil)
	_ stet.Closer = (*Store)(nil)
)

// New wraps inner. The error names what cannot be used.
func New(inner stet.Store, c Config) (*Store, error) {
	switch {
	case inner == nil:
		return nil, errors.New("sealstore: New needs a store")
	case c.AcceptPlain && c.Keys.Names != nil:
		return nil, errors.New("sealstore: AcceptPlain: plain records have plain names, which are not found where names are hashed")
	case c.MaxOpened < 0:
		return nil, fmt.Errorf("sealstore: MaxOpened is %d", c.MaxOpened)
	}
	if err := c.Keys.validate(); err != nil {
		return nil, fmt.Errorf("sealstore: %w", err)
	}
	sealer, err := newSealer(c.Keys, cmp.Or(c.CompressOver, DefaultCompressOver), cmp.Or(c.MaxOpened, DefaultMaxOpened))
	if err != nil {
		return nil, fmt.Errorf("sealstore: %w", err)
	}
	s := Store{sealer: sealer, plain: c.AcceptPlain}
	if c.Keys.Names != nil {
		s.names = append(names{}, c.Keys.Names...)
	}
	return s.around(inner), nil
}

// SetKeys seals and opens with other keys from now on, also where s is wrapped or has a transaction
// open. Keys that sealed what is still to be read have to be among them. The key that hashes names
// cannot change: what is stored would not be found. The error says what cannot be used; nothing
// changes then.
func (s *Store) SetKeys(k Keys) error {
	if err := k.validate(); err != nil {
		return fmt.Errorf("sealstore: %w", err)
	}
	if !bytes.Equal(s.names, k.Names) {
		return errors.New(`sealstore: encryption keys: "names" is another; it stays as it was when the store was empty`)
	}
	if err := s.sealer.setKeys(k); err != nil {
		return fmt.Errorf("sealstore: %w", err)
	}
	return nil
}

// around is s with another store inside.
func (s *Store) around(inner stet.Store) *Store {
	c := *s
	c.inner = inner
	has := ability.Of(inner)
	c.chain = has.Chain(&c, abilities{&c, has}, nil)
	return &c
}

// Unwrap lets [stet.As] find the abilities of the inner store that this package knows, each opening
// and sealing as the verbs do. Others are not found: they might write past the seal.
func (s *Store) Unwrap() stet.Store { return s.chain }

// Close closes the inner store, if it has something to close.
func (s *Store) Close() error { return ability.Close(s.inner) }

// Create implements [stet.Store].
func (s *Store) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	if _, reserved := r.Meta[metaName]; reserved {
		return stet.Record{}, fmt.Errorf("sealstore: the name %q in Meta is reserved", metaName)
	}
	h := s.seal(&r.Head)
	got, err := s.inner.Create(ctx, stet.Record{Head: h, Body: s.sealBody(&h, &r.Body)})
	switch {
	case err == nil:
		return stet.Record{Head: given(got.Head, &r.Head), Body: r.Body}, nil
	case errors.Is(err, stet.ErrExists):
		have, unopened := s.open(got, r.ID)
		return have, cmp.Or(unopened, err)
	}
	return stet.Record{}, err
}

// Get implements [stet.Store].
func (s *Store) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	got, err := s.inner.Get(ctx, s.names.id(id))
	if err != nil {
		return stet.Record{}, err
	}
	return s.open(got, id)
}

// Replace implements [stet.Store]. A head that could not be opened when it was read is
// [stet.ErrCorrupt]: what it holds sealed must not be lost.
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	if unopened(&h) {
		return stet.Head{}, fmt.Errorf("%w: its head could not be opened, and is not written over", stet.ErrCorrupt)
	}
	sealed := s.seal(&h)
	var body *stet.Body
	if b != nil {
		body = new(s.sealBody(&sealed, b))
	}
	got, err := s.inner.Replace(ctx, prev, sealed, body)
	switch {
	case err == nil:
		return given(got, &h), nil
	case errors.Is(err, stet.ErrStale):
		if s.openHead(&got) != nil { // the version is what counts
			got.Meta, got.Note = nil, nil
		}
		got.ID = h.ID
		return got, err
	}
	return stet.Head{}, err
}

// Delete implements [stet.Store]. A record that was listed under its hashed names, because they
// could not be opened, is deleted by those.
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	err := s.inner.Delete(ctx, s.names.id(id), prev)
	if s.names != nil && hashed(id) && errors.Is(err, stet.ErrNotFound) {
		return s.inner.Delete(ctx, id, prev)
	}
	return err
}

// Due implements [stet.Store].
func (s *Store) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := s.inner.Due(ctx, s.query(q))
	return s.shown(heads, &q), next, err
}

// query is q by stored names. A key is hashed with its scope: where q names a key alone, shown
// selects what has it.
func (s *Store) query(q stet.Query) stet.Query {
	switch {
	case s.names != nil && q.Scope == "":
		q.Key = ""
	case q.Key != "":
		q.Key = s.names.id(stet.ID{Scope: q.Scope, Key: q.Key}).Key
	}
	if q.Scope != "" {
		q.Scope = s.names.scope(q.Scope)
	}
	return q
}

// sifts reports whether the stored query of q selects more than q does.
func (s *Store) sifts(q *stet.Query) bool { return s.names != nil && q.Scope == "" && q.Key != "" }

// shown opens those heads that can be opened, and leaves out what q does not select.
func (s *Store) shown(heads []stet.Head, q *stet.Query) []stet.Head {
	if heads == nil {
		return nil
	}
	open := make([]stet.Head, 0, len(heads))
	for _, h := range heads {
		stored := h
		if s.openHead(&h) != nil {
			h = stored
		}
		if !s.sifts(q) || h.Key == q.Key {
			open = append(open, h)
		}
	}
	return open
}
