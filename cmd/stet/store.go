package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/cmd/internal/layers"
	"github.com/stet-dev/stet/internal/usable"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/tierstore"
)

// open opens the store of the configuration, with all that is around it.
func (a *app) open(ctx context.Context) error {
	l, err := storeLayers(a.conf)
	if err != nil {
		return err // checked before
	}
	if l.Store.Shared() {
		l.Breaker = a.breaker
		a.metrics.Breaker(float64(breakerstore.Closed))
	}
	l.Tier.Deaf = func(err error) { // the error is of a connection, and no text of records
		a.log.Warn("the cache does not hear what others change: until it does, a result that they delete is replayed for up to store.cache_ttl_s",
			"error", err)
	}
	began := time.Now()
	if a.store, err = l.Open(ctx, dsn.Serve); err != nil {
		return err
	}
	if made(ctx, a.store, began) {
		at := []any{"store", l.Store.String()}
		if path := l.Store.Place(); path != "" {
			at = append(at, "path", path)
		}
		a.log.Warn("made a new store: no key is known; if there was a store before, it is in another place, or it is gone", at...)
	}
	for _, text := range a.store.Warnings {
		a.log.Warn(text, "store", l.Store.String())
	}
	err = fits(a.conf, a.store)
	if err == nil {
		err = a.prove(ctx)
	}
	if err != nil {
		return errors.Join(err, a.store.Close())
	}
	return nil
}

// persistent reports whether the records outlive the gateway.
func persistent(conf *config.Config) bool {
	d, _ := dsn.Parse(conf.Store.DSN) // checked before
	return d.Persistent()
}

// proving is how long the proof of a start may take.
const proving = 30 * time.Second

// prove refuses a store that cannot be used. What may be so for a while refuses no start: replays
// go on.
func (a *app) prove(ctx context.Context) error {
	switch err := usableAsConfigured(ctx, a.conf, a.store); {
	case err == nil:
	case isAny(stet.ErrForeign, stet.ErrFull, stet.ErrBusy, stet.ErrUnconfirmed)(err):
		a.log.Warn("the store takes no new keys", "error", oneLine(err))
	default:
		return failf(exitError, "%w", err)
	}
	return nil
}

// usableAsConfigured proves that the store can be used, and is the expected one.
func usableAsConfigured(ctx context.Context, conf *config.Config, store *dsn.Opened) error {
	if err := expect(conf, store); err != nil || !persistent(conf) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, proving)
	defer cancel()
	return usable.Prove(ctx, store.Store, true)
}

// expect has the store be the one that the configuration names.
func expect(conf *config.Config, store *dsn.Opened) error {
	if conf.Store.Expect == "" {
		return nil
	}
	s, ok := stet.As[stet.Identified](store.Store)
	if !ok {
		return conf.Fault("store.expect", "a store in memory has no identity: take it out")
	}
	s.Know(stet.Identity{ID: conf.Store.Expect})
	return nil
}

// made reports whether the store got its identity after an instant: it is new (S04).
func made(ctx context.Context, store *dsn.Opened, after time.Time) bool {
	i, ok := stet.As[stet.Identified](store.Store)
	if !ok {
		return false
	}
	now, _, err := i.Identity(ctx)
	return err == nil && !now.Made.Before(after.Truncate(time.Millisecond))
}

// fits refuses settings that allow more than the store takes.
func fits(conf *config.Config, store *dsn.Opened) error {
	s, ok := stet.As[stet.Sizer](store.Store)
	if !ok {
		return nil
	}
	return conf.Fits(s.Sizes())
}

func layersOf(c *config.Store) (layers.Layers, error) {
	d, err := dsn.Parse(c.DSN)
	if err != nil {
		return layers.Layers{}, err
	}
	d.Listen, d.Forget = c.ListenDSN, c.AllowVolatile
	cache, err := dsn.ParseCache(c.Cache, d)
	return layers.Layers{Store: d, KeysFile: c.EncryptionKeysFile, AcceptPlain: c.EncryptionAccept, Cache: cache,
		Tier: tierstore.Config{TTL: c.CacheTTL.Duration(), InFlight: c.CacheInFlight}}, err
}

// breaker tells log and metrics what the circuit breaker does.
func (a *app) breaker(from, to breakerstore.State) {
	a.metrics.Breaker(float64(to))
	level, text := slog.LevelWarn, "the store fails: it is left alone for a moment, and guarded requests are refused"
	switch to {
	case breakerstore.HalfOpen:
		level, text = slog.LevelInfo, "the store is tried again"
	case breakerstore.Closed:
		level, text = slog.LevelInfo, "the store answers again"
	}
	a.log.Log(context.Background(), level, text, "breaker", to.String(), "was", from.String())
}

func storeName(conf *config.Config) string {
	d, _ := dsn.Parse(conf.Store.DSN) // checked before
	return d.String()
}
