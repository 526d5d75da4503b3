package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/layers"
)

type configCheckCmd struct {
	settings
	File string `arg:"" optional:"" help:"The file to check, as --config."`
	Deep bool   `help:"Also connect to the store and the upstream."`
}

// check implements [checked].
func (c *configCheckCmd) check(w *world) error {
	switch {
	case c.File != "" && w.given["config"]:
		return failf(exitUsage, "%s and --config %s are two files; give one", c.File, c.Config)
	case c.File != "":
		c.Config = c.File
	case c.Config == "":
		return failf(exitUsage, "no file is given; write stet config check FILE")
	}
	return nil
}

func (c *configCheckCmd) Run(w *world, conf *config.Config) error {
	if err := startable(conf); err != nil {
		return err
	}
	for _, warning := range conf.Warnings() {
		fmt.Fprintln(w.stderr, "warning:", warning)
	}
	if text := unguarded(&conf.Admin); text != "" {
		fmt.Fprintln(w.stderr, "warning:", text)
	}
	if c.Deep {
		if err := deep(w.ctx, conf); err != nil {
			return err
		}
	}
	return w.printf("%s: ok\n", c.Config)
}

// startable finds what keeps a gateway from starting with a configuration, and needs no network to
// be found: the files it names are read as the gateway reads them.
func startable(conf *config.Config) error {
	var found config.Errors
	fail := func(path string, err error) {
		if err != nil {
			found = append(found, conf.Fault(path, "%s", fileText(path, err)))
		}
	}
	if conf.Upstream == "" {
		found = append(found, conf.Fault("upstream",
			"no upstream is set; write upstream: http://HOST:PORT, or give --upstream or STET_UPSTREAM"))
	}
	readTLS("tls", conf.TLS, fail)
	readTLS("admin.tls", conf.Admin.TLS, fail)
	token := ifTrue(conf.Admin.TokenFile != "", "admin.token_file")
	fail(cmp.Or(token, "admin.tokens_file"), errorOf(adminTokens(&conf.Admin)))
	fail("store.pepper_file", errorOf(config.ReadSecret(conf.Store.PepperFile)))
	fail("store.encryption_keys_file", errorOf(layers.ReadKeys(conf.Store.EncryptionKeysFile)))
	fail("reconcile.webhook.secret_file", errorOf(hook(nil, conf)))
	fail("reconcile.probe.headers_file", errorOf(probeHeader(conf.Reconcile.Probe.HeadersFile)))
	return found.Err()
}

// fileText says what is wrong with a setting's file, without its path before it.
func fileText(path string, err error) string {
	var at *fs.PathError
	switch {
	case errors.As(err, &at) && errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("there is no file %s; make it, or name another", at.Path)
	case errors.As(err, &at) && errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%s cannot be read by this user; let the gateway's user read it", at.Path)
	}
	text := err.Error()
	for _, before := range []string{path, layers.ErrKeys.Error(), "reconcile", "admin"} {
		text = strings.TrimPrefix(text, before+": ")
	}
	return text
}
