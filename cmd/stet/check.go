package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/layers"
)

type configCheckCmd struct {
	settings
	File string `arg:"" optional:"" help:"The file to check, as --config."`
	Deep bool   `help:"Also connect to the store and the upstream."`
}

// Help is what --help says below the flags.
func (configCheckCmd) Help() string {
	return `Flags and environment variables of stet gateway are applied to the file, as the gateway does.
Exit status: 0 if a gateway can start with it, 2 for mistakes; with --deep 6 for findings, 5 if the store does not answer.`
}

// check implements [checked].
func (c *configCheckCmd) check(w *world) error {
	switch {
	case c.File != "" && w.given["config"]:
		return failf(exitUsage, "%s and --config %s are two files; give one", c.File, c.Config)
	case c.File != "":
		c.Config = c.File
	case c.Config == "":
		return failf(exitUsage, "which file? stet config check --config FILE")
	}
	return nil
}

func (c *configCheckCmd) Run(w *world) error {
	conf, err := c.load(w)
	if err != nil {
		return err
	}
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
	_, err = fmt.Fprintf(w.stdout, "%s: ok\n", c.Config)
	return err
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
		found = append(found, conf.Fault("upstream", "which API is behind the gateway? write upstream: http://HOST:PORT, or give --upstream or STET_UPSTREAM"))
	}
	pair := func(path string, t *config.TLS) {
		if t == nil {
			return
		}
		fail(path+".cert_file", readable(t.CertFile))
		_, err := config.ReadSecretFile(t.KeyFile, maxKeyFile)
		fail(path+".key_file", err)
		if readable(t.CertFile) == nil && err == nil {
			_, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			fail(path+".key_file", pairText(t, err))
		}
		fail(path+".client_ca_file", authorities(t.ClientCAFile))
	}
	pair("tls", conf.TLS)
	pair("admin.tls", conf.Admin.TLS)
	tokens := "admin.token_file"
	if conf.Admin.TokenFile == "" {
		tokens = "admin.tokens_file"
	}
	_, err := adminTokens(&conf.Admin)
	fail(tokens, err)
	_, err = config.ReadSecret(conf.Store.PepperFile)
	fail("store.pepper_file", err)
	_, err = layers.ReadKeys(conf.Store.EncryptionKeysFile)
	fail("store.encryption_keys_file", err)
	_, err = hook(nil, &conf.Reconcile.Webhook)
	fail("reconcile.webhook.secret_file", err)
	_, err = probeHeader(conf.Reconcile.Probe.HeadersFile)
	fail("reconcile.probe.headers_file", err)
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

func readable(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	_, err = f.Read(make([]byte, 1)) // a directory opens
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s is empty", name)
	}
	return errors.Join(err, f.Close())
}

func pairText(t *config.TLS, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s and %s are not a certificate and its key in PEM: %s", t.CertFile, t.KeyFile, strings.TrimPrefix(err.Error(), "tls: "))
}

func authorities(name string) error {
	if name == "" {
		return nil
	}
	pem, err := os.ReadFile(name)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		err = fmt.Errorf("%s holds no certificate in PEM", name)
	}
	return err
}
