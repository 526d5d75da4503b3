package main

import (
	"github.com/stet-dev/stet/cmd/internal/config"
)

// settings are the flags that a configuration can be given by.
type settings struct {
	Config     string `placeholder:"FILE" env:"STET_CONFIG" help:"Configuration file; stet config init prints one."`
	Upstream   string `placeholder:"URL" env:"STET_UPSTREAM" help:"The API behind the gateway."`
	Listen     string `placeholder:"ADDR" env:"STET_LISTEN" help:"Where clients connect (:8080)."`
	Admin      string `placeholder:"ADDR" env:"STET_ADMIN" help:"Where operators connect (127.0.0.1:8081)."`
	Store      string `placeholder:"DSN" env:"STET_STORE" help:"Where records live: memory:, file:DIR, sqlite:PATH, postgres://…, mysql://…, redis://…, redis+cluster://… or redis+sentinel://… (sqlite:stet.db)."`
	Profile    string `placeholder:"NAME" env:"STET_PROFILE" complete:"default,ietf,stripe,stripe-v2,seed-strict,gateway-compat" help:"A published dialect: default, ietf, stripe, stripe-v2, seed-strict, gateway-compat."`
	PepperFile string `placeholder:"FILE" env:"STET_PEPPER_FILE" help:"Secret behind the ids in logs and lists."`
	KeysFile   string `name:"encryption-keys-file" placeholder:"FILE" env:"STET_ENCRYPTION_KEYS_FILE" help:"Encrypt what is stored with the keys in this file."`
	LogLevel   string `placeholder:"LEVEL" env:"STET_LOG_LEVEL" complete:"debug,info,warn,error" help:"debug, info, warn or error (info)."`
}

// load reads the configuration and puts the flags and the environment over it.
func (s *settings) load(w *world) (*config.Config, error) {
	o := config.Options{File: s.Config}
	for _, f := range []struct{ path, flag, env, value string }{
		{"upstream", "upstream", "STET_UPSTREAM", s.Upstream},
		{"listen", "listen", "STET_LISTEN", s.Listen},
		{"admin.listen", "admin", "STET_ADMIN", s.Admin},
		{"store.dsn", "store", "STET_STORE", s.Store},
		{"policy.profile", "profile", "STET_PROFILE", s.Profile},
		{"store.pepper_file", "pepper-file", "STET_PEPPER_FILE", s.PepperFile},
		{"store.encryption_keys_file", "encryption-keys-file", "STET_ENCRYPTION_KEYS_FILE", s.KeysFile},
		{"log_level", "log-level", "STET_LOG_LEVEL", s.LogLevel},
	} {
		at := config.Origin{Kind: config.FromEnvironment, Name: f.env}
		if w.given[f.flag] {
			at = config.Origin{Kind: config.FromFlag, Name: "--" + f.flag}
		}
		if f.value != "" || w.given[f.flag] {
			o.Overrides = append(o.Overrides, config.Override{Path: f.path, Value: f.value, Origin: at})
		}
	}
	return config.Load(o)
}
