// Package layers opens a store with what the configuration puts around it: seal(tier(front, breaker(back))).
package layers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/sealstore"
	"github.com/stet-dev/stet/store/tierstore"
)

// ErrKeys: the encryption keys do not fit, the file or the store. It is a setting to be put right.
var ErrKeys = errors.New("encryption keys")

// Layers are a store and what is around it.
type Layers struct {
	Store dsn.DSN
	// Breaker is told when the circuit breaker before a server changes its mind. nil: there is none. A store in the process
	// or in its file system has none: it cannot be pressed by many.
	Breaker func(from, to breakerstore.State)
	Cache   *dsn.Cache // nil: none
	Tier    tierstore.Config
	// KeysFile has the encryption keys; "": records are stored as they are.
	KeysFile    string
	AcceptPlain bool // records from before encryption are read
}

// Open opens the store and puts its layers around it. Besides those of [dsn.DSN.Open] there is one error, [ErrKeys]: nothing may
// run on a store whose names were hashed with another key, or whose results cannot be opened.
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

// around puts breaker and front around o.
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
	front, closeFront := l.front(o)
	s, err := tierstore.New(front, o.Store, l.Tier)
	if err != nil {
		return errors.Join(err, closeFront())
	}
	closeBack := o.Close
	o.Store, o.Close = s, func() error { return errors.Join(closeFront(), closeBack()) }
	return nil
}

func (l Layers) front(o *dsn.Opened) (tierstore.Front, func() error) {
	if l.Cache.Server == nil {
		return tierstore.NewCache(l.Cache.MaxBytes), func() error { return nil }
	}
	f := &late{}
	if err := f.start(func(ctx context.Context) (*dsn.Opened, error) { return l.Cache.Server.Open(ctx, dsn.Serve) }); err != nil {
		o.Warnings = append(o.Warnings, fmt.Sprintf("the cache is not there; the store is asked alone until it is: %s",
			strings.TrimPrefix(err.Error(), dsn.ErrUnreachable.Error()+": ")))
	}
	return tierstore.Shared(f), f.stop
}

const acceptPlain = "store.encryption_accept_plain: true reads them until they have ended (--encryption-accept-plain of operators' commands)"

// seal puts encryption around o, or makes sure that there was none.
func (l Layers) seal(ctx context.Context, o *dsn.Opened, keys *sealstore.Keys) error {
	if keys == nil {
		err := sealstore.CheckPlain(ctx, o.Store)
		if errors.Is(err, sealstore.ErrSealed) {
			return fmt.Errorf("%w: %s has sealed records; give their keys: --encryption-keys-file", ErrKeys, l.Store)
		}
		return l.asked(err)
	}
	if l.AcceptPlain && keys.Names != nil {
		return fmt.Errorf(`%w: %s has "names": with those, records that are not sealed cannot be accepted, since their names are not found`, ErrKeys, l.KeysFile)
	}
	s, err := sealstore.New(o.Store, sealstore.Config{Keys: *keys, AcceptPlain: l.AcceptPlain})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrKeys, l.KeysFile, err)
	}
	switch err = s.CheckSealed(ctx); {
	case errors.Is(err, sealstore.ErrPlain):
		return fmt.Errorf("%w: %s has records that are not sealed; %s", ErrKeys, l.Store, acceptPlain)
	case errors.Is(err, sealstore.ErrNames):
		return fmt.Errorf("%w: %s: %s", ErrKeys, l.Store, strings.TrimPrefix(err.Error(), "sealstore: "))
	}
	o.Store = s
	return l.asked(err)
}

// asked tells a store that did not answer a question from one that refused.
func (l Layers) asked(err error) error {
	if err == nil || errors.Is(err, stet.ErrCorrupt) { // damage of one record is that record's
		return nil
	}
	return fmt.Errorf("%w: %s: %w", dsn.ErrUnreachable, l.Store, err)
}

// ReadKeys reads a file of encryption keys, and returns nil without a name. The error is [ErrKeys].
func ReadKeys(name string) (*sealstore.Keys, error) {
	const limit = 64 << 10 // some hundred keys
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	defer func() { _ = f.Close() }()
	doc, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && len(doc) > limit {
		err = fmt.Errorf("it is over %d bytes", limit)
	}
	var k sealstore.Keys
	if err == nil {
		k, err = sealstore.ParseKeys(doc)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrKeys, name, strings.TrimPrefix(err.Error(), ErrKeys.Error()+": "))
	}
	return &k, nil
}

// again is how often a front that was not there at the start is looked for.
const again = time.Second
