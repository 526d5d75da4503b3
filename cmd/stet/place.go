package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/stet-dev/stet/admin"
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

// knockTimeout is how long a gateway may take to say who it is.
const knockTimeout = 10 * time.Second

func (p *place) remote() (*api, error) {
	tr := http.DefaultTransport.(*http.Transport).Clone()
	a := &api{at: p.Admin, token: os.Getenv(adminTokenVariable), close: tr.CloseIdleConnections, client: &http.Client{Transport: tr, Timeout: 30 * time.Second,
		// The admin API never redirects, and the target of a redirect has not identified itself.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if socket, ok := strings.CutPrefix(p.Admin, "unix:"); ok && socket != "" {
		a.base = &url.URL{Scheme: "http", Host: "localhost"}
		tr.Proxy = nil
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(socket, "//"))
		}
	} else {
		base, err := url.Parse(p.Admin)
		if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil {
			return nil, failf(exitUsage, "--admin needs a URL such as http://127.0.0.1:8081, or unix:PATH; a token goes into %s", adminTokenVariable)
		}
		a.base = base
	}
	if a.base.Scheme != "https" {
		if p.AdminCA+p.AdminCert+p.AdminKey != "" {
			return nil, failf(exitUsage, "--admin-ca, --admin-cert and --admin-key are for --admin https://…; %s has no certificate", p.Admin)
		}
		return a, nil
	}
	var err error
	tr.TLSClientConfig, err = p.tls()
	return a, err
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

// knock makes sure, once, that the admin API is there, before it is shown a token or asked to
// change anything.
func (a *api) knock(ctx context.Context) error {
	if a.known.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, knockTimeout)
	defer cancel()
	res, err := a.send(ctx, http.MethodGet, "/livez", nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	a.known.Store(true)
	return nil
}

// send sends a request without any token, and returns an answer of the admin API alone.
func (a *api) send(ctx context.Context, method, path string, body io.Reader, more ...func(*http.Request)) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(a.base.String(), "/")+path, body)
	if err != nil {
		return nil, err
	}
	for _, set := range more {
		set(req)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return nil, a.unreachable(err)
	}
	if res.Header.Get(admin.Marker) != "1" {
		defer func() { _ = res.Body.Close() }()
		return nil, a.stranger(res)
	}
	return res, nil
}

const whereAdmin = `the admin address is in the line "ready" of its log; the default is 127.0.0.1:8081`

// stranger says who answered instead of the admin API, as far as that shows. What he answered is
// not believed.
func (a *api) stranger(res *http.Response) error {
	if _, is := res.Header["Stet-Outcome"]; is || strings.Contains(strings.Join(res.Header["Via"], ","), " stet") {
		return fmt.Errorf("%s is the gateway's address for clients; %s", a.at, whereAdmin)
	}
	if res.StatusCode == http.StatusBadRequest && a.base.Scheme == "http" {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 512)) // the sentences of net/http and nginx
		if strings.Contains(string(said), "HTTPS") {
			return a.speaksTLS()
		}
	}
	return fmt.Errorf("%s answered %d, and not as the admin API does; %s", a.at, res.StatusCode, whereAdmin)
}

func (a *api) speaksTLS() error {
	return fmt.Errorf("%s speaks TLS; give --admin %s, if that is the admin address", a.at, "https"+strings.TrimPrefix(a.at, "http"))
}

// unreachable says why there is no answer, and what to do about it.
func (a *api) unreachable(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var refused *tls.CertificateVerificationError
	var op *net.OpError
	text := err.Error()
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s speaks HTTP without TLS; give --admin %s, if that is the admin address", a.at, "http"+strings.TrimPrefix(a.at, "https"))
	case strings.Contains(text, `malformed HTTP response "\x15\x03`): // an alert
		return a.speaksTLS()
	case strings.Contains(text, "malformed HTTP"), errors.As(err, new(tls.RecordHeaderError)):
		return fmt.Errorf("what answers at %s is no HTTP server; %s", a.at, whereAdmin)
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of %s is of no authority that is known here; give the authority's: --admin-ca FILE, or STET_ADMIN_CA", a.at)
	case errors.As(err, &name):
		return fmt.Errorf("the certificate of %s is for other names (%w); give --admin with one of them", a.at, name)
	case errors.As(err, &refused):
		return fmt.Errorf("the certificate of %s is refused: %w; the gateway needs another", a.at, refused.Err)
	case strings.Contains(text, "tls: certificate required"), strings.Contains(text, "tls: bad certificate"), strings.Contains(text, "tls: unknown certificate authority"):
		return failf(exitNotAllowed, "%s asks for a certificate of its own authority; give one: --admin-cert FILE --admin-key FILE", a.at)
	case errors.Is(err, syscall.EACCES):
		return failf(exitNotAllowed, "%s belongs to another user; run this as the user that runs the gateway", a.at)
	case errors.Is(err, context.DeadlineExceeded):
		return failf(exitUnreachable, "what is at %s did not answer in time; is it the admin address, and is the gateway well?", a.at)
	case errors.As(err, &op):
		err = op
	}
	return failf(exitUnreachable, "no gateway answers at %s: %w; does it run, and is this its admin address?", a.at, err)
}
