package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/layers"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/sealstore"
)

// parts are all that a configuration can put in force while the gateway runs. They are made before
// one of them is, so that a reload is whole or not at all.
type parts struct {
	conf         *config.Config
	gate         *gateway.Gateway
	operators    http.Handler
	notices      http.Handler // nil: on the operators' listener, or none are taken
	certificates *tls.Config  // nil: no TLS
	operatorsTLS *tls.Config  // likewise
	keys         *sealstore.Keys

	sweeper, reaper, reconciler, trimmer maintenance.Loop
	asked                                *reconcile.Reconciler // what bulk jobs ask with; nil: nothing
}

func (a *app) make(conf *config.Config) (*parts, error) {
	p := &parts{conf: conf}
	var err error
	if p.certificates, err = loadTLS("tls", conf.TLS); err != nil {
		return nil, err
	}
	if p.operatorsTLS, err = loadTLS("admin.tls", conf.Admin.TLS); err != nil {
		return nil, err
	}
	if p.keys, err = layers.ReadKeys(conf.Store.EncryptionKeysFile); err != nil {
		return nil, &statusError{exitUsage, err}
	}
	notices, err := hook(a.engine, conf)
	if err != nil {
		return nil, err
	}
	if conf.Reconcile.Webhook.Listen != "" {
		p.notices, notices = notices, nil
	}
	if p.asked, err = reconciler(a.engine, &conf.Reconcile); err != nil {
		return nil, err
	}
	if p.asked != nil {
		p.reconciler = p.asked
	}
	if p.operators, err = a.operators(conf, p.asked, notices); err != nil {
		return nil, err
	}
	p.sweeper = maintenance.Sweeper{Engine: a.engine, Every: conf.Keeper.SweepInterval.Duration()}
	p.reaper = maintenance.Reaper{Engine: a.engine, Every: conf.Keeper.ReapInterval.Duration(), Batch: conf.Keeper.ReapBatch}
	if days := conf.Audit.RetainDays; days > 0 {
		p.trimmer = maintenance.Trimmer{Engine: a.engine, Age: time.Duration(days) * 24 * time.Hour}
	}
	if p.gate, err = handler(a.engine, conf, a.limits, a.log); err != nil {
		return nil, &statusError{exitUsage, err}
	}
	return p, nil
}

// install puts parts in force. Requests that run go on with what they began with.
func (a *app) install(p *parts) {
	a.announce(p.gate, p.conf)
	a.admins.set(p.operators)
	a.notices.set(p.notices)
	a.shown.set(p.certificates, "h2", "http/1.1")
	a.secure.set(p.operatorsTLS, "http/1.1")
	if err := a.server.SetTimeouts(timeouts(p.conf)); err != nil {
		a.log.Error("the timeouts stay as they were", "error", err.Error())
	}
	a.server.SetHandler(p.gate)
	if old := a.gate.Swap(p.gate); old != nil {
		old.CloseIdle()
	}
	a.loop(a.sweeper.Set(p.sweeper))
	a.loop(a.reaper.Set(p.reaper))
	a.loop(a.reconciler.Set(p.reconciler))
	a.loop(a.trimmer.Set(p.trimmer))
	if a.level != nil {
		_ = a.level.UnmarshalText([]byte(p.conf.LogLevel)) // checked before
	}
	a.conf = p.conf
	a.tell()
}

// rekey seals and opens with other keys from now on.
func (a *app) rekey(keys *sealstore.Keys) error {
	if keys == nil {
		return nil
	}
	s, ok := stet.As[*sealstore.Store](a.store.Store)
	if !ok {
		return fmt.Errorf("%w: the store was opened without any", layers.ErrKeys)
	}
	return s.SetKeys(*keys)
}
