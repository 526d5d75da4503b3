// Package layers opens a store and puts around it the wrappers that the configuration asks for:
// seal(tier(cache, breaker(store))).
package layers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/sealstore"
	"github.com/stet-dev/stet/store/tierstore"
)

// ErrKeys is returned if the encryption keys cannot be read, or do not fit what is stored. The
// operator has to correct a setting.
var ErrKeys = errors.New("encryption keys")

// Layers is a store and the wrappers around it.
type Layers struct {
	Store dsn.DSN
	// Breaker is called when the circuit breaker changes its state. If it is nil, there is no
	// breaker, nor is there one around a store in the process or the file system, which only this
	// process calls.
	Breaker func(from, to breakerstore.State)
	// Cache is the cache before the store. If it is nil, there is none.
	Cache *dsn.Cache
	Tier  tierstore.Config
	// KeysFile is the name of the file with the encryption keys. If it is empty, records are stored
	// as they are.
	KeysFile string
	// AcceptPlain also reads records that were stored before there was encryption.
	AcceptPlain bool
}

// Open opens the store and wraps it. It returns the errors of [dsn.DSN.Open], and [ErrKeys]: with
// wrong keys, used keys would not be found or results could not be replayed, so nothing may run.
func (l Layers) Open(ctx context.Context, use dsn.Use) (*dsn.Opened, error) {
	keys, err := ReadKeys(l.KeysFile)
	if err != nil {
		return nil, err
	}
	o, err := l.Store.Open(ctx, use)
	if err != nil {
		return nil, err
	}
	err = l.around(o)
	if err == nil {
		err = l.seal(ctx, o, keys)
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// around puts the breaker and the cache around o.
func (l Layers) around(o *dsn.Opened) error {
	if l.Breaker != nil && l.Store.Shared() {
		s, err := breakerstore.New(o.Store, breakerstore.Config{Changed: l.Breaker})
		if err != nil {
			return err
		}
		o.Store = s
	}
	if l.Cache == nil {
		return nil
	}
	cache, closeCache := l.cache(o)
	l.Tier.Clock = o.Clock
	s, err := tierstore.New(cache, o.Store, l.Tier)
	if err != nil {
		return errors.Join(err, closeCache())
	}
	if l.Cache.Server == nil { // it hears what other processes change
		stop := background(func(ctx context.Context) {
			_ = s.Follow(ctx) // some stores announce nothing: then copies go by their age; else see Tier.Deaf
		})
		closeCache = func() error { stop(); return nil }
	}
	closeOrigin := o.Close
	o.Store, o.Close = s, func() error { return errors.Join(closeCache(), closeOrigin()) }
	return nil
}

// background runs f until stop is called, which waits for its end.
func background(f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	return func() { cancel(); running.Wait() }
}

// cache opens the cache. If its server cannot be reached, o gets a warning.
func (l Layers) cache(o *dsn.Opened) (tierstore.Cache, func() error) {
	if l.Cache.Server == nil {
		return tierstore.NewMemory(l.Cache.MaxBytes), func() error { return nil }
	}
	c := &lazy{}
	err := c.start(func(ctx context.Context) (*dsn.Opened, error) { return l.Cache.Server.Open(ctx, dsn.Serve) })
	if err != nil {
		o.Warnings = append(o.Warnings, fmt.Sprintf("the cache is not there; the store is asked alone until it is: %s",
			strings.TrimPrefix(err.Error(), dsn.ErrUnreachable.Error()+": ")))
	}
	return tierstore.Shared(c), c.stop
}

const acceptPlain = "store.encryption_accept_plain: true reads them until they have ended " +
	"(--encryption-accept-plain of operators' commands)"

// seal encrypts what o stores. Without keys, it makes sure that o has no sealed records.
func (l Layers) seal(ctx context.Context, o *dsn.Opened, keys *sealstore.Keys) error {
	if keys == nil {
		err := sealstore.Check(ctx, o.Store)
		if errors.Is(err, sealstore.ErrSealed) {
			return fmt.Errorf("%w: %s has sealed records; give their keys: --encryption-keys-file", ErrKeys, l.Store)
		}
		return l.asked(err)
	}
	if l.AcceptPlain && keys.Names != nil {
		return fmt.Errorf(`%w: %s has "names": with those, records that are not sealed cannot be accepted, `+
			`since their names are not found`, ErrKeys, l.KeysFile)
	}
	s, err := sealstore.New(o.Store, sealstore.Config{Keys: *keys, AcceptPlain: l.AcceptPlain})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrKeys, l.KeysFile, err)
	}
	switch err = sealstore.Check(ctx, s); {
	case errors.Is(err, sealstore.ErrPlain):
		return fmt.Errorf("%w: %s has records that are not sealed; %s", ErrKeys, l.Store, acceptPlain)
	case errors.Is(err, sealstore.ErrKey):
		return fmt.Errorf("%w: %s: %s in %s; put the right bytes back, and give a new key an id of its own", ErrKeys, l.KeysFile,
			strings.TrimPrefix(err.Error(), "sealstore: "), l.Store)
	case errors.Is(err, sealstore.ErrNames):
		return fmt.Errorf("%w: %s: %s", ErrKeys, l.Store, strings.TrimPrefix(err.Error(), "sealstore: "))
	}
	o.Store = s
	return l.asked(err)
}

// asked returns the error of a store that did not answer the question what it holds.
func (l Layers) asked(err error) error {
	if err == nil || errors.Is(err, stet.ErrCorrupt) { // damage of one record is that record's
		return nil
	}
	return fmt.Errorf("%w: %s: %w", dsn.ErrUnreachable, l.Store, err)
}

// ReadKeys reads a file of encryption keys. If name is empty, it returns nil. The error is
// [ErrKeys].
func ReadKeys(name string) (*sealstore.Keys, error) {
	const limit = 64 << 10 // some hundred keys
	if name == "" {
		return nil, nil
	}
	doc, err := config.ReadSecretFile(name, limit)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	k, err := sealstore.ParseKeys(doc)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrKeys, name, strings.TrimPrefix(err.Error(), ErrKeys.Error()+": "))
	}
	return &k, nil
}
