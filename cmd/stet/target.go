package main

import (
	"cmp"
	"net"
	"net/netip"

	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/cmd/internal/layers"
)

// target is where an operator's command looks: into a store, or through the admin API of a running
// gateway.
type target struct {
	admin string // URL; "": the store
	token string // for admin, as the configuration has it

	store     layers.Layers
	pepper    []byte
	reconcile config.Reconcile // whom to ask about a record, as the configuration says
}

// target puts flags and environment over the configuration file, if there is one. Nothing is opened
// but small files.
func (s *source) target(w *world) (p target, err error) {
	store, admin := s.Store != "", s.Admin != ""
	if store && admin && w.given["store"] != w.given["admin"] { // a flag beats the other's environment variable
		store, admin = w.given["store"], w.given["admin"]
	}
	switch {
	case store && admin:
		return p, failf(exitUsage, "give --store or --admin, not both")
	case admin:
		return target{admin: s.Admin}, nil
	}
	conf, d, err := storeOf(s.Config, s.Store)
	if err != nil {
		return p, err
	}
	if !d.Persistent() {
		if s.Config != "" && !store {
			return throughAdmin(conf)
		}
		return p, failf(exitUsage, "a memory: store is inside its gateway; give --admin URL")
	}
	conf.Store.PepperFile = cmp.Or(s.PepperFile, conf.Store.PepperFile)
	conf.Store.EncryptionKeysFile = cmp.Or(s.KeysFile, conf.Store.EncryptionKeysFile)
	p.reconcile = conf.Reconcile
	conf.Store.EncryptionAccept = conf.Store.EncryptionAccept || s.Plain
	if p.pepper, err = config.ReadSecret(conf.Store.PepperFile); err != nil {
		return p, failf(exitUsage, "--pepper-file: %w", err)
	}
	if p.store, err = layersOf(&conf.Store); err != nil {
		return p, failf(exitUsage, "--store: %w", err)
	}
	p.store.Store.Given = d.Given
	if store || p.store.Cache != nil && p.store.Cache.Server == nil { // a cache is of the file's store, and of its process if it is in memory
		p.store.Cache = nil
	}
	return p, nil
}

// storeOf reads the configuration file, if there is one, and puts the address of a store over it,
// if there is one.
func storeOf(file, address string) (*config.Config, dsn.DSN, error) {
	conf, err := config.Load(config.Options{File: file})
	if err != nil {
		return nil, dsn.DSN{}, err
	}
	conf.Store.DSN = cmp.Or(address, conf.Store.DSN)
	conf.Store.ListenDSN = "" // commands wait for no notification
	d, err := dsn.Parse(conf.Store.DSN)
	if err != nil {
		return nil, d, failf(exitUsage, "--store: %w", err)
	}
	if address == "" && file != "" {
		d.Given = "--config " + file
	}
	return conf, d, nil
}

// throughAdmin is the admin API of the gateway that a configuration is of, for a store that lives
// in its process.
func throughAdmin(conf *config.Config) (p target, err error) {
	token, err := config.ReadToken(conf.Admin.TokenFile)
	if err != nil {
		return p, failf(exitUsage, "admin.token_file: %w", err)
	}
	if conf.Admin.Socket != "" {
		return target{admin: "unix:" + conf.Admin.Socket, token: string(token)}, nil
	}
	host, port, err := net.SplitHostPort(conf.Admin.Listen)
	if err != nil || port == "0" {
		return p, failf(exitUsage, "the store is in the memory of the gateway, and admin.listen names no port; give --admin URL")
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "127.0.0.1"
	}
	secure := ifTrue(conf.Admin.TLS != nil, "s")
	return target{admin: "http" + secure + "://" + net.JoinHostPort(host, port), token: string(token)}, nil
}
