package main

import (
	"context"
	"log/slog"

	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/cmd/internal/layers"
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
	if a.store, err = l.Open(ctx, dsn.Serve); err != nil {
		return err
	}
	for _, text := range a.store.Warnings {
		a.log.Warn(text, "store", l.Store.String())
	}
	return nil
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
