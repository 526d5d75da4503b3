package main

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/stet-dev/stet/cmd/internal/config"
)

// reloads acts on SIGHUP until ctx ends.
func (a *app) reloads(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.reload:
			a.reloadOnce()
			a.durable.soon()
		}
	}
}

// reloadOnce puts a new configuration in force, whole or not at all. Requests that run go on under the old one, and a
// bad file changes nothing.
func (a *app) reloadOnce() {
	next, err := a.again()
	if err == nil && next.Upstream == "" {
		err = fmt.Errorf("there is no upstream any more")
	}
	if err != nil {
		a.log.Error("the new configuration is not used; the old one stays", "error", err.Error())
		return
	}
	gate, err := handler(a.engine, next, a.log, a.sharers)
	if err != nil {
		a.log.Error("the new configuration is not used; the old one stays", "error", err.Error())
		return
	}
	a.announce(gate, next)
	old := a.gate
	a.server.SetHandler(gate)
	a.gate = gate
	old.CloseIdle()
	if late := needRestart(&a.conf.File, &next.File); len(late) > 0 {
		a.log.Warn("these settings changed and take effect at the next start", "settings", strings.Join(late, ", "))
	}
	a.log.Info("the new configuration is in force")
}

// needRestart lists the settings that differ and that a reload does not touch: what is bound or opened at the start.
func needRestart(was, is *config.File) []string {
	var late []string
	for _, s := range []struct {
		name    string
		was, is any
	}{
		{"listen", was.Listen, is.Listen},
		{"tls", was.TLS, is.TLS},
		{"h2c", was.H2C, is.H2C},
		{"read_header_timeout_s", was.ReadHeaderTimeout, is.ReadHeaderTimeout},
		{"read_timeout_s", was.ReadTimeout, is.ReadTimeout},
		{"write_timeout_s", was.WriteTimeout, is.WriteTimeout},
		{"limits.max_request_header_bytes", was.Limits.MaxRequestHeaderBytes, is.Limits.MaxRequestHeaderBytes},
		{"log_level", was.LogLevel, is.LogLevel},
		{"admin", was.Admin, is.Admin},
		{"store", was.Store, is.Store},
		{"replicas", was.Replicas, is.Replicas},
		{"keeper", was.Keeper, is.Keeper},
		{"reconcile", was.Reconcile, is.Reconcile},
	} {
		if !reflect.DeepEqual(s.was, s.is) {
			late = append(late, s.name)
		}
	}
	return late
}
