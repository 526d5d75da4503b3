package chaos

import (
	"context"
	"net"
	"net/http"

	"github.com/stet-dev/stet/internal/crashpoint"
)

// statement is the points of one that goes to the database: before it, and when it has happened.
func (p *points) statement(query string) func(crashpoint.Where) {
	done := p.pass(name(query))
	return func(at crashpoint.Where) {
		if at == crashpoint.After {
			done()
		}
	}
}

// requests is a transport with the points of requests: before each, and when it is on its way to a provider that will carry it out
// while nobody is there to hear the answer. net/http tells of a request before it has left ([httptrace.ClientTrace]), so that the
// second is found below it.
func requests(p *points) http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return line{c, p}, nil
	}
	return transport{t, p}
}

const answerPoint = "the provider's answer"

type line struct {
	net.Conn
	p *points
}

func (l line) Write(b []byte) (int, error) {
	n, err := l.Conn.Write(b)
	l.p.pass(answerPoint)()
	return n, err
}

type transport struct {
	http.RoundTripper
	p *points
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	defer t.p.pass(r.Method + " " + r.URL.Path)()
	return t.RoundTripper.RoundTrip(r)
}
