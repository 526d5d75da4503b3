package main

import (
	"reflect"

	"github.com/stet-dev/stet/cmd/internal/config"
)

// settings are the flags and environment variables that go over the configuration file. The tag
// sets names the setting that a flag stands for.
type settings struct {
	Config     string `placeholder:"FILE" env:"STET_CONFIG" help:"Configuration file; stet config init prints one."`
	Upstream   string `name:"upstream" placeholder:"URL" env:"STET_UPSTREAM" sets:"upstream" help:"URL of the API behind the gateway."`
	Listen     string `name:"listen" placeholder:"ADDR" env:"STET_LISTEN" sets:"listen" help:"Address that clients connect to (:8080)."`
	Admin      string `name:"admin" placeholder:"ADDR" env:"STET_ADMIN" sets:"admin.listen" help:"Address that operators connect to (127.0.0.1:8081)."`
	Store      string `name:"store" placeholder:"DSN" env:"STET_STORE" sets:"store.dsn" help:"Where records live: memory:, file:DIR, sqlite:PATH, postgres://…, mysql://…, redis://…, redis+cluster://… or redis+sentinel://… (sqlite:stet.db)."`
	Profile    string `name:"profile" placeholder:"NAME" env:"STET_PROFILE" complete:"default,ietf,stripe,stripe-v2,seed-strict,gateway-compat" sets:"policy.profile" help:"A published dialect: default, ietf, stripe, stripe-v2, seed-strict, gateway-compat."`
	PepperFile string `name:"pepper-file" placeholder:"FILE" env:"STET_PEPPER_FILE" sets:"store.pepper_file" help:"File with the secret that ids in logs and lists are derived with."`
	KeysFile   string `name:"encryption-keys-file" placeholder:"FILE" env:"STET_ENCRYPTION_KEYS_FILE" sets:"store.encryption_keys_file" help:"File with the keys that stored records are encrypted with."`
	LogLevel   string `name:"log-level" placeholder:"LEVEL" env:"STET_LOG_LEVEL" complete:"debug,info,warn,error" sets:"log_level" help:"debug, info, warn or error (info)."`
}

// load reads the configuration. A flag beats its environment variable, and that beats the file.
func (s *settings) load(w *world) (*config.Config, error) {
	o := config.Options{File: s.Config}
	for field, v := range reflect.ValueOf(s).Elem().Fields() {
		path, ok := field.Tag.Lookup("sets")
		if !ok {
			continue
		}
		flag, value := field.Tag.Get("name"), v.String()
		at := config.Origin{Kind: config.FromEnvironment, Name: field.Tag.Get("env")}
		if w.given[flag] {
			at = config.Origin{Kind: config.FromFlag, Name: "--" + flag}
		}
		if value != "" || w.given[flag] {
			o.Overrides = append(o.Overrides, config.Override{Path: path, Value: value, Origin: at})
		}
	}
	return config.Load(o)
}
