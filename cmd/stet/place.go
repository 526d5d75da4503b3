package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/stet-dev/stet/admin/adminclient"
)

// place is where a gateway's operators connect, and what it takes to.
type place struct {
	Admin     string `placeholder:"URL" env:"STET_ADMIN_URL" help:"Admin address of a running gateway, instead of a store: http://, https:// or unix:PATH."`
	AdminCA   string `name:"admin-ca" placeholder:"FILE" env:"STET_ADMIN_CA" help:"Certificate authority of the admin address, if it is not a public one."`
	AdminCert string `placeholder:"FILE" env:"STET_ADMIN_CERT" help:"Client certificate for the admin address, if it asks for one."`
	AdminKey  string `placeholder:"FILE" env:"STET_ADMIN_KEY" help:"Key of the client certificate."`
}

// adminTokenVariable holds the token for --admin. There is no flag for it: a command line can be
// read by everybody.
const adminTokenVariable = "STET_ADMIN_TOKEN"

// remote is the admin API at an address. token is shown where the environment has none.
func (p *place) remote(address, token string) (*api, error) {
	secure := strings.HasPrefix(address, "https://")
	c := adminclient.Config{Address: address, Token: cmp.Or(os.Getenv(adminTokenVariable), token)}
	switch certified := p.AdminCA+p.AdminCert+p.AdminKey != ""; {
	case secure:
		var err error
		if c.TLS, err = p.tls(); err != nil {
			return nil, err
		}
	case certified:
		return nil, failf(exitUsage,
			"--admin-ca, --admin-cert and --admin-key are for --admin https://…; %s has no certificate", address)
	}
	client, err := adminclient.New(c)
	if err != nil {
		return nil, failf(exitUsage, "--admin needs a URL such as http://127.0.0.1:8081, or unix:PATH; a token goes into %s",
			adminTokenVariable)
	}
	return &api{Client: client, at: address, token: c.Token != "", close: client.Close}, nil
}

// gateway is the admin API at the address, or where a gateway has it by default, for commands that
// only a gateway can answer.
func (p *place) gateway() (*api, error) {
	return p.remote(cmp.Or(p.Admin, "http://127.0.0.1:8081"), "")
}

func (p *place) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.AdminCA != "" {
		pem, err := os.ReadFile(p.AdminCA)
		if err != nil {
			return nil, failf(exitUsage, "--admin-ca: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, failf(exitUsage, "--admin-ca: %s holds no certificate", p.AdminCA)
		}
	}
	if p.AdminCert+p.AdminKey != "" {
		pair, err := tls.LoadX509KeyPair(p.AdminCert, p.AdminKey)
		if err != nil {
			return nil, failf(exitUsage, "--admin-cert and --admin-key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

const whereAdmin = `the admin address is in the line "ready" of its log; the default is 127.0.0.1:8081`

// stranger says who answered instead of the admin API, as far as that shows.
func (a *api) stranger(s *adminclient.StrangerError) error {
	switch {
	case s.Gateway:
		return fmt.Errorf("%s is the gateway's address for clients; %s", a.at, whereAdmin)
	case s.TLS:
		return a.speaksTLS()
	}
	return fmt.Errorf("%s answered %d, and not as the admin API does; %s", a.at, s.Status, whereAdmin)
}

func (a *api) speaksTLS() error {
	return fmt.Errorf("%s speaks TLS; give --admin %s, if that is the admin address", a.at,
		"https"+strings.TrimPrefix(a.at, "http"))
}

// unreachable says why there is no answer, and what to do about it.
func (a *api) unreachable(err error) error {
	var name x509.HostnameError
	var refused *tls.CertificateVerificationError
	var op *net.OpError
	text := err.Error()
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s speaks HTTP without TLS; give --admin %s, if that is the admin address", a.at,
			"http"+strings.TrimPrefix(a.at, "https"))
	case strings.Contains(text, `malformed HTTP response "\x15\x03`): // an alert
		return a.speaksTLS()
	case strings.Contains(text, "malformed HTTP"), errors.As(err, new(tls.RecordHeaderError)):
		return fmt.Errorf("what answers at %s is no HTTP server; %s", a.at, whereAdmin)
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return fmt.Errorf("the certificate of %s is of no authority that is known here; give the authority's: --admin-ca FILE, or STET_ADMIN_CA", a.at)
	case errors.As(err, &name):
		return fmt.Errorf("the certificate of %s is for other names (%w); give --admin with one of them", a.at, name)
	case errors.As(err, &refused):
		return fmt.Errorf("the certificate of %s is refused: %w; the gateway needs another", a.at, refused.Err)
	case strings.Contains(text, "tls: certificate required"), strings.Contains(text, "tls: bad certificate"),
		strings.Contains(text, "tls: unknown certificate authority"):
		return failf(exitNotAllowed,
			"%s asks for a certificate of its own authority; give one: --admin-cert FILE --admin-key FILE", a.at)
	case errors.Is(err, syscall.EACCES):
		return failf(exitNotAllowed, "%s belongs to another user; run this as the user that runs the gateway", a.at)
	case errors.Is(err, context.DeadlineExceeded):
		return failf(exitUnreachable,
			"%s did not answer in time; check that it is the admin address and that the gateway is healthy", a.at)
	case errors.As(err, &op):
		err = op
	}
	return failf(exitUnreachable, "no gateway answers at %s: %w; check that it runs and that this is its admin address",
		a.at, err)
}
