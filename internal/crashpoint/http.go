package crashpoint

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// Answer is what lies ahead when a request is on its way: the server will carry it out, though the
// process that sent it is dead.
const Answer = "the provider's answer"

// Transport returns a transport with points around each request, and one when the request has been
// written. net/http tells of a request before it has left ([net/http/httptrace.ClientTrace]), so
// the connection is where that one is found.
func (p *Points) Transport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &line{Conn: c, p: p}, nil
	}
	return transport{t, p}
}

type line struct {
	net.Conn
	p       *Points
	writing sync.Mutex
}

func (l *line) Write(b []byte) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	n, err := l.Conn.Write(b)
	l.p.pass(Answer, Before)
	return n, err
}

// Read returns no answer before the point at which the request was on its way.
func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.writing.Lock()
	defer l.writing.Unlock()
	return n, err
}

type transport struct {
	http.RoundTripper
	p *Points
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	defer t.p.around(r.Method + " " + r.URL.Path)()
	return t.RoundTripper.RoundTrip(r)
}

// Reply is what a client hears.
type Reply struct {
	Status   int
	Replayed bool
	Body     string
}

// Post sends a body of a media type with an idempotency key, once. An error is a connection that
// broke.
func Post(ctx context.Context, url, key, media, body string) (Reply, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return Reply{}, err
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Type", media)
	r.GetBody = nil // net/http must not repeat the request by itself
	r.Close = true  // each process has a port of its own, for a moment
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return Reply{}, err
	}
	defer func() { _ = w.Body.Close() }()
	answer, err := io.ReadAll(w.Body)
	return Reply{w.StatusCode, w.Header.Get("Idempotent-Replayed") == "true", string(answer)}, err
}
