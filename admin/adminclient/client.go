package adminclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/internal/bounds"
)

// Config says where the admin API is, and who asks.
type Config struct {
	// Address is http://HOST:PORT, https://HOST:PORT or unix:PATH; required.
	Address string
	// Token is sent as Bearer once the address has shown that it is the admin API; "" sends none.
	Token string
	// TLS has the authorities and the client certificate for https; nil means the system's
	// authorities and no certificate.
	TLS *tls.Config
	// Timeout bounds each call; 0 means [DefaultTimeout].
	Timeout time.Duration
}

var configBounds = bounds.For[Config](bounds.Duration("Timeout", bounds.Short, bounds.Long).OrDefault())

// DefaultTimeout bounds a call where [Config] does not.
const DefaultTimeout = 30 * time.Second

// knockTimeout is how long the address may take to show what it is.
const knockTimeout = 10 * time.Second

// maxAnswer bounds an answer, in bytes: a page of records with their responses.
const maxAnswer = 64 << 20

// ErrAddress is returned for a [Config] whose address is no URL of the admin API.
var ErrAddress = errors.New("adminclient: the address has to be http://HOST:PORT, https://HOST:PORT or unix:PATH")

// Client calls the admin API. It is safe for concurrent use.
type Client struct{ connection }

// connection is the way to a gateway.
type connection struct {
	base  string // of all paths
	token string
	http  http.Client
	known atomic.Bool // it has shown that it is the admin API
}

// New returns a client for an address. It connects with the first call. The error is [ErrAddress].
func New(c Config) (*Client, error) {
	if err := configBounds.Check(&c); err != nil {
		return nil, err
	}
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.TLSClientConfig = c.TLS
	base := strings.TrimRight(c.Address, "/")
	if socket, ok := strings.CutPrefix(c.Address, "unix:"); ok && socket != "" {
		base, tr.Proxy = "http://localhost", nil
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(socket, "//"))
		}
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, ErrAddress
	}
	return &Client{connection{base: base, token: c.Token, http: client(tr, cmp.Or(c.Timeout, DefaultTimeout))}}, nil
}

// InProcess returns a client that calls a handler of package admin directly, for the sender of the
// request from: with its Host, TLS and RemoteAddr, and, where token is "", with its Authorization, and
// with what says that it came through a proxy.
// A nil request is this process itself, over loopback. Values of a call's context reach the
// handler, such as [http.LocalAddrContextKey].
func InProcess(h http.Handler, from *http.Request, token string) *Client {
	if from == nil {
		from = &http.Request{Host: "localhost", RemoteAddr: "127.0.0.1:0"}
	}
	c := &Client{connection{base: "http://localhost", token: token, http: client(inProcess{h, from}, 0)}}
	c.known.Store(true) // no other server can be in the handler's place
	return c
}

// client follows no redirect: the API sends none, and its target has not shown what it is.
func client(tr http.RoundTripper, timeout time.Duration) http.Client {
	return http.Client{Transport: tr, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Close closes connections that are kept open.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get reads the document at a path, with its query, into what into points to. It is for documents
// that have no method of their own here.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.call(ctx, http.MethodGet, path, nil, into)
}

func get[T any](ctx context.Context, c *Client, path string) (doc T, err error) {
	err = c.Get(ctx, path, &doc)
	return doc, err
}

func post[T any](ctx context.Context, c *Client, path string, sent any) (doc T, err error) {
	err = c.call(ctx, http.MethodPost, path, sent, &doc)
	return doc, err
}

func (c *connection) call(ctx context.Context, method, path string, doc, into any) error {
	a, err := c.exchange(ctx, method, path, doc)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(a.body.Bytes(), into); err != nil {
		return unreadable(method, path, err)
	}
	return nil
}

// unreadable is the error of an answer that is not the document it should be.
func unreadable(method, path string, err error) error {
	return fmt.Errorf("the answer to %s %s cannot be read: %w; is the client of the gateway's version?",
		method, strings.SplitN(path, "?", 2)[0], err)
}

// exchange sends a document to a path, and returns the answer, unless that is a problem.
func (c *connection) exchange(ctx context.Context, method, path string, doc any) (*answer, error) {
	a, err := c.ask(ctx, method, path, doc)
	if err == nil && a.status != http.StatusOK && a.status != http.StatusAccepted && a.status != http.StatusNoContent {
		err = problem(a)
	}
	return a, err
}

// ask sends a document to a path, by whom the client's token is, and returns the answer.
func (c *connection) ask(ctx context.Context, method, path string, doc any) (*answer, error) {
	var sent bytes.Buffer
	header := http.Header{}
	if c.token != "" {
		header.Set("Authorization", "Bearer "+c.token)
	}
	if doc != nil {
		if err := json.NewEncoder(&sent).Encode(doc); err != nil {
			return nil, err
		}
		header.Set("Content-Type", "application/json")
	}
	if err := c.knock(ctx); err != nil {
		return nil, err
	}
	return c.send(ctx, method, path, header, &sent)
}

// knock makes sure, once, that the admin API is there, before it is shown a token or asked to
// change anything.
func (c *connection) knock(ctx context.Context) error {
	if c.known.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, knockTimeout)
	defer cancel()
	_, err := c.send(ctx, http.MethodGet, "/livez", nil, http.NoBody)
	if err == nil {
		c.known.Store(true)
	}
	return err
}

// Ready asks whether the gateway is ready, and returns what it says. It shows no token.
func Ready(ctx context.Context, c *Client) (said string, ready bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, knockTimeout)
	defer cancel()
	a, err := c.send(ctx, http.MethodGet, "/readyz", nil, http.NoBody)
	if err != nil {
		return "", false, err
	}
	return strings.TrimSpace(a.body.String()), a.status == http.StatusOK, nil
}

// send sends a request, and returns an answer of the admin API alone. Each answer is looked at:
// another server may have taken the gateway's place.
func (c *connection) send(ctx context.Context, method, path string, header http.Header, body io.Reader) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, &UnreachableError{err}
	}
	defer func() { _ = res.Body.Close() }()
	if res.Header.Get(admin.Marker) != "1" {
		return nil, stranger(res)
	}
	a := &answer{header: res.Header, status: res.StatusCode}
	if _, err := a.body.ReadFrom(io.LimitReader(res.Body, maxAnswer)); err != nil {
		return nil, &UnreachableError{err}
	}
	return a, nil
}

// inProcess answers requests by a handler, without a network, for the sender of from.
type inProcess struct {
	http.Handler
	from *http.Request
}

// RoundTrip implements [http.RoundTripper].
func (h inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr, in.Host, in.TLS = r.URL.RequestURI(), h.from.RemoteAddr, h.from.Host, h.from.TLS
	for _, name := range append([]string{"Authorization"}, admin.ProxyHeaders...) {
		if said := h.from.Header[name]; said != nil && in.Header[name] == nil {
			in.Header[name] = said
		}
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &answer{header: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(w, in)
	w.header.Set(admin.Marker, "1") // also of a handler in front of it, which has no need to say so
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), Request: r}, nil
}

// answer keeps what is answered.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
