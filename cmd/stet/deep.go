package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/cmd/internal/layers"
	"github.com/stet-dev/stet/store/sqlstore"
)

// deepPatience is how long store and upstream each may take to answer.
const deepPatience = 10 * time.Second

// deep opens what the configuration names elsewhere. It leaves nothing there: what a gateway would
// make is not made.
func deep(ctx context.Context, conf *config.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 2*deepPatience)
	defer cancel()
	var found config.Errors
	fail := func(path string, err error) {
		if err != nil {
			found = append(found, conf.Fault(path, "%s", oneLine(err)))
		}
	}
	status := exitFindings
	store, err := opened(ctx, conf)
	if errors.Is(err, errBehind) {
		err = nil
	}
	if store != nil {
		if beyond, ok := errors.AsType[config.Errors](fits(conf, store)); ok {
			found = append(found, beyond...)
		}
		err = errors.Join(usableAsConfigured(ctx, conf, store), store.Close())
		for _, text := range store.Warnings {
			found = append(found, conf.Fault("store.dsn", "%s", text))
		}
	}
	fail("store.dsn", err)
	if exitOf(err) == exitUnreachable {
		status = exitUnreachable
	}
	fail("upstream", reach(ctx, conf.Upstream, listeners(conf)...))
	fail("tls.cert_file", errorOf(current(conf.TLS)))
	fail("admin.tls.cert_file", errorOf(current(conf.Admin.TLS)))
	if found := found.Err(); found != nil {
		return &statusError{status, found}
	}
	return nil
}

// oneLine is what an error says, without its line breaks; "" if there is none.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// errBehind is of a store that cannot be looked at yet, and is fine as it is.
var errBehind = errors.New("the store has the tables of an older version, which a gateway brings up to date when it starts")

// opened is the store as a gateway opens it, with its layers; nil if a gateway would make it. The
// error is errBehind if a gateway would bring it up to date.
func opened(ctx context.Context, conf *config.Config) (*dsn.Opened, error) {
	l, err := storeLayers(conf)
	if err != nil {
		return nil, err
	}
	d, use := l.Store, dsn.Serve
	if d.Persistent() && !d.Shared() {
		use = dsn.Look
		if _, err := os.Stat(d.Path); errors.Is(err, os.ErrNotExist) {
			return nil, d.Makeable()
		}
	}
	if d.Dialect() == sqlstore.SQLite {
		switch old, err := behind(ctx, d); {
		case err != nil:
			return nil, err
		case old:
			return nil, errBehind
		}
	}
	return l.Open(ctx, use)
}

// behind reports a schema that a gateway brings up to date when it starts.
func behind(ctx context.Context, d dsn.DSN) (old bool, err error) {
	db, err := d.DB(dsn.Look)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	have, want, err := sqlstore.Status(ctx, db, d.Dialect())
	if err != nil {
		return false, d.Failed(err)
	}
	return have < want, nil
}

// storeLayers are the store of a configuration and what is around it, with the flag that names it.
func storeLayers(conf *config.Config) (layers.Layers, error) {
	l, err := layersOf(&conf.Store)
	if at := conf.Origin("store.dsn"); at.Kind == config.FromFile {
		l.Store.Given = "--config " + at.Name
	}
	return l, err
}

// listener is an address that a gateway listens at, and the setting that names it.
type listener struct{ path, at string }

// listeners are those of a configuration.
func listeners(conf *config.Config) []listener {
	all := []listener{{"listen", conf.Listen}, {"admin.listen", conf.Admin.Listen},
		{"reconcile.webhook.listen", conf.Reconcile.Webhook.Listen}}
	return slices.DeleteFunc(all, func(l listener) bool { return l.at == "" })
}

// collide reports whether two addresses to listen at are one. Port 0 is a free one each time.
func collide(a, b string) bool {
	at, errAt := net.ResolveTCPAddr("tcp", a)
	other, errOther := net.ResolveTCPAddr("tcp", b)
	if errAt != nil || errOther != nil || at.Port != other.Port || at.Port == 0 {
		return false
	}
	every := func(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
	return every(at.IP) || every(other.IP) || at.IP.Equal(other.IP)
}

// reach connects to a server, and for https looks at its certificate. It must not be one of own.
func reach(ctx context.Context, server string, own ...listener) error {
	ctx, cancel := context.WithTimeout(ctx, deepPatience)
	defer cancel()
	u, err := url.Parse(server)
	if err != nil {
		return err // checked before
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), config.DefaultPort(u.Scheme))
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%s cannot be reached: %w; is the API up, and is this its address?", address, err)
	}
	defer func() { _ = conn.Close() }()
	here, there := conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr)
	if there.IP.IsLoopback() || there.IP.Equal(here.IP) { // it is on this machine
		for _, l := range own {
			if collide(l.at, there.String()) {
				return fmt.Errorf("%s is this gateway itself (%s): give the API's own address", address, l.path)
			}
		}
	}
	if u.Scheme != "https" {
		return nil
	}
	err = tls.Client(conn, &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}).HandshakeContext(ctx)
	var unverified *tls.CertificateVerificationError
	switch {
	case errors.As(err, new(tls.RecordHeaderError)):
		return fmt.Errorf("%s does not speak TLS; write http:// if that is meant", address)
	case errors.As(err, &unverified):
		return fmt.Errorf("the certificate of %s is not accepted: %w; mend it, or let this machine trust its authority",
			address, unverified.Err)
	case err != nil:
		return fmt.Errorf("the TLS handshake with %s failed: %w", address, err)
	}
	return nil
}

// current looks whether clients accept a listener's certificate at this time, and until when.
// Without TLS it has none.
func current(t *config.TLS) (until time.Time, err error) {
	if t == nil {
		return until, nil
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return until, err // checked before
	}
	until = pair.Leaf.NotAfter
	switch now := time.Now(); {
	case now.After(until):
		err = fmt.Errorf("the certificate ended on %s: renew it", instant(until))
	case now.Before(pair.Leaf.NotBefore):
		err = fmt.Errorf("the certificate begins on %s: clients refuse it until then", instant(pair.Leaf.NotBefore))
	}
	return until, err
}
