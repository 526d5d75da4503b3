package sealstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/internal/bounds"
)

// Config configures a [Store]. Keys are required; the other fields have defaults.
type Config struct {
	// Keys seal and open values, and may hash names. Required.
	Keys Keys
	// AcceptPlain also reads records that are not sealed, while a store is being migrated. It
	// cannot be combined with hashed names. Default false: such records are [stet.ErrCorrupt].
	AcceptPlain bool
	// CompressOver is a size in bytes: larger values are compressed before they are sealed. 0 means
	// 1 KiB; -1 turns compression off.
	CompressOver int
	// MaxOpened is the largest size in bytes to which a compressed value may expand. Values larger
	// than that are stored uncompressed. Default 64 MiB.
	MaxOpened int64
}

var configBounds = bounds.For[Config](
	bounds.Number("CompressOver", 1, bounds.Many).OrDefault().Or("-1 for no compression", -1),
	bounds.Number("MaxOpened", 1, bounds.Huge).OrDefault(),
)

// Store seals what it writes to the store that it wraps, and opens what it reads. It has the
// abilities of that store. It is safe for concurrent use.
type Store struct {
	inner  stet.Store
	sealer *sealer
	names  names
	plain  bool // unsealed records are read
	chain  stet.Store
}

var (
	_ stet.Store = (*Store)(nil)
	_ io.Closer  = (*Store)(nil)
)

// New wraps inner. The error names the field of c that cannot be used, and quotes no key.
func New(inner stet.Store, c Config) (*Store, error) {
	switch {
	case inner == nil:
		return nil, errors.New("sealstore: New needs a store")
	case c.AcceptPlain && c.Keys.Names != nil:
		return nil, errors.New("sealstore: AcceptPlain cannot be combined with hashed names: plain records would not be found")
	}
	if err := configBounds.Check(&c); err != nil {
		return nil, err
	}
	sealer, err := newSealer(c.Keys, cmp.Or(c.CompressOver, 1<<10), cmp.Or(c.MaxOpened, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("sealstore: %w", err)
	}
	s := Store{sealer: sealer, names: bytes.Clone(c.Keys.Names), plain: c.AcceptPlain}
	return s.around(inner), nil
}

// SetKeys exchanges the keys, also in wrappers of s and in open transactions. k must contain all
// keys that sealed values which are still to be read, and the same Names as before: with others,
// stored records would not be found. A key that was in use has the same bytes under its id, or is
// left out. If SetKeys returns an error, the keys stay as they were.
func (s *Store) SetKeys(k Keys) error {
	keys, err := k.ring()
	if err != nil {
		return fmt.Errorf("sealstore: %w", err)
	}
	if !bytes.Equal(s.names, k.Names) {
		return errors.New(`sealstore: encryption keys: "names" differs; it must stay as it was when the store was empty`)
	}
	if id := s.sealer.keys.Load().exchanged(keys); id != "" {
		return fmt.Errorf("sealstore: encryption keys: key %q has other bytes than the one that is in use; a new key needs an id of its own", id)
	}
	s.sealer.keys.Store(keys)
	return nil
}

// around returns a copy of s that wraps another store.
func (s *Store) around(inner stet.Store) *Store {
	c := *s
	c.inner = inner
	has := ability.Of(inner)
	c.chain = has.Chain(&c, abilities{&c, has}, nil)
	return &c
}

// Unwrap lets [stet.As] find the abilities of the inner store, each of which seals and opens as the
// verbs do. Methods that this package does not know are not found, because they could write past
// the seal.
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
		have, unopened := s.open(got, r.ID, stet.MaxBody(ctx))
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
	return s.open(got, id, stet.MaxBody(ctx))
}

// Replace implements [stet.Store]. If h could not be opened when it was read, the error is
// [stet.ErrCorrupt]: overwriting it would lose what it holds sealed.
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
		if s.openHead(&got) != nil { // the caller needs the version alone
			got.Meta, got.Note = nil, nil
		}
		got.ID = h.ID
		return got, err
	}
	return stet.Head{}, err
}

// Delete implements [stet.Store]. A record that could not be opened is listed under its hashed
// names, and can be deleted by those.
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

// query returns q with stored names. A key is hashed with its scope, so the result has no key if q
// has no scope; shown then selects the records.
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

// shown opens the heads that can be opened, and leaves out those that q does not select.
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
