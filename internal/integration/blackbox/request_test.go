package blackbox

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
)

// request is what a case sends. Options change the default: the case's tenant, its key, the body
// {"a":1}.
type request struct {
	method, path string
	header       http.Header
	keys         []string // field lines of Idempotency-Key
	who          string   // the principal: TENANT:USER:NONCE; "" sends no credentials
	body         io.Reader
	text         string // the body, where it is to be sent again
	length       int64  // -1: chunked
	trailer      http.Header
	h2           bool
	node         int
	ctx          context.Context
}

type option func(*request)

// key sets the field lines of Idempotency-Key as they are on the wire.
func key(lines ...string) option { return func(r *request) { r.keys = lines } }

// noKey sends no Idempotency-Key.
func noKey(r *request) { r.keys = nil }

// body sends text with a Content-Length.
func body(text string) option {
	return func(r *request) { r.text, r.body, r.length = text, nil, int64(len(text)) }
}

// chunked sends the body without a length.
func chunked(r *request) { r.length = -1 }

// ctype sets the Content-Type; "" sends none.
func ctype(v string) option { return header("Content-Type", v) }

// header sets a field; no value, or "", removes it. The name goes out as written.
func header(name string, values ...string) option {
	return func(r *request) {
		delete(r.header, name)
		delete(r.header, http.CanonicalHeaderKey(name))
		if len(values) > 0 && values[0] != "" {
			r.header[name] = values
		}
	}
}

// rename sends the key under another field name.
func rename(name string) option {
	return func(r *request) { r.header[name], r.keys = r.keys, nil }
}

// as sends the credentials of TENANT:USER:NONCE. What comes before the last colon is the principal.
func as(who string) option { return func(r *request) { r.who = who } }

// anonymous sends no credentials.
func anonymous(r *request) { r.who = "" }

// h2 sends the request over HTTP/2.
func h2(r *request) { r.h2 = true }

// within ends the request with ctx, as a client that goes away does.
func within(ctx context.Context) option { return func(r *request) { r.ctx = ctx } }

// sends sets method and path.
func sends(method, path string) option {
	return func(r *request) { r.method, r.path = method, path }
}

// trailing announces and sends a request trailer.
func trailing(name, value string) option {
	return func(r *request) { r.trailer = http.Header{http.CanonicalHeaderKey(name): {value}} }
}

// who returns the credentials of a user of a tenant of this case: who("t1:u1") is the default.
func (c *C) who(tenantUser string) string {
	tenant, user, _ := strings.Cut(tenantUser, ":")
	return tenant + "-" + c.name + ":" + user + ":n1"
}

func (c *C) newRequest(method, path string, opts []option) request {
	r := request{
		method: method, path: path, ctx: c.ctx, node: c.node,
		header: http.Header{"Content-Type": {"application/json"}},
		keys:   []string{`"k-` + c.name + `"`}, who: c.who("t1:u1"),
	}
	body(`{"a":1}`)(&r)
	for _, o := range opts {
		o(&r)
	}
	return r
}

// POST sends a request and returns what came back.
func (c *C) POST(path string, opts ...option) *Answer { return c.Do("POST", path, opts...) }

// Do sends a request and returns what came back. It may be called from any goroutine.
func (c *C) Do(method, path string, opts ...option) *Answer {
	r := c.newRequest(method, path, opts)
	return c.send(r)
}

// Start sends a request in the background; Wait returns its answer.
func (c *C) Start(method, path string, opts ...option) *Pending {
	p := &Pending{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.answer = c.Do(method, path, opts...)
	}()
	return p
}

// Begun sends a request in the background, and returns when its handler has begun. A store that is
// too slow for a moment refuses the request before that, and asks for another try. What it was too
// slow to answer may have reserved the key until it is withdrawn, which the next try is told.
func (c *C) Begun(method, path string, opts ...option) *Pending {
	c.Helper()
	for slow := false; ; slow = true {
		p := c.Start(method, path, opts...)
		ctx, cancel := context.WithCancel(c.ctx)
		go func() { <-p.done; cancel() }()
		err := c.srv.Fixture().Entered(ctx, c.name, 1)
		cancel()
		switch {
		case err == nil:
			return p
		case !p.Over():
			c.Fatalf("its handler did not begin: %v", err)
		case p.answer.Status != http.StatusServiceUnavailable && (!slow || p.answer.Status != http.StatusConflict):
			c.Fatalf("its handler did not begin: %d %s", p.answer.Status, p.answer.Body)
		}
		if !slow {
			c.Logf("refused, and sent again: %s", p.answer.Body)
		}
	}
}

// Pending is a request under way.
type Pending struct {
	done   chan struct{}
	answer *Answer
}

// Wait returns the answer. The case's own deadline bounds it.
func (p *Pending) Wait() *Answer { <-p.done; return p.answer }

// Over reports whether the answer is there.
func (p *Pending) Over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Race sends n equal requests at once and returns their answers as they come.
func (c *C) Race(n int, method, path string, opts ...option) <-chan *Answer {
	out := make(chan *Answer, n)
	for range n {
		go func() { out <- c.Do(method, path, opts...) }()
	}
	return out
}

// clients of the suite. They open a connection per request: net/http resends a keyed request by
// itself when a reused connection breaks, and a test must know how often it asked.
var clients = sync.OnceValue(func() (pair [2]*http.Client) {
	one, two := &http.Protocols{}, &http.Protocols{}
	one.SetHTTP1(true)
	two.SetUnencryptedHTTP2(true)
	two.SetHTTP2(true)
	for i, p := range []*http.Protocols{one, two} {
		pair[i] = &http.Client{
			Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, Protocols: p, ExpectContinueTimeout: patience,
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // who answers is not in question on loopback
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return pair
})

func (c *C) send(r request) *Answer {
	a := &Answer{c: c, req: r}
	hr, err := http.NewRequestWithContext(r.ctx, r.method, c.srv.URL(r.node), nil)
	if err != nil {
		a.Err = err
		return a
	}
	path, query, found := strings.Cut(r.path, "?")
	hr.URL.Opaque = path // arrives byte for byte
	hr.URL.RawQuery, hr.URL.ForceQuery = query, found && query == ""
	from := r.body
	if from == nil {
		from = strings.NewReader(r.text)
	}
	hr.Body, hr.ContentLength, hr.Trailer = io.NopCloser(from), r.length, r.trailer
	if r.length == 0 {
		hr.Body = http.NoBody
	}
	hr.Header = c.fields(r)
	hr = hr.WithContext(httptrace.WithClientTrace(r.ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			a.Interim = append(a.Interim, Interim{code, http.Header(h)})
			return nil
		},
	}))
	client := clients()[0]
	if r.h2 {
		client = clients()[1]
	}
	res, err := client.Do(hr)
	if err != nil {
		a.Err = err
		return a
	}
	a.Status, a.Proto, a.Header = res.StatusCode, res.Proto, res.Header
	a.Length, a.Encoding = res.ContentLength, res.TransferEncoding
	a.Body, a.Err = io.ReadAll(res.Body)
	res.Body.Close()
	a.Trailer = res.Trailer
	return a
}

// fields are the header lines of a request: what it says itself, whose it is, and which case it
// belongs to. The tenant header is what a trusted proxy in front of a gateway makes of the
// credentials.
func (c *C) fields(r request) http.Header {
	h := r.header.Clone()
	h[CaseHeader] = []string{c.name}
	if len(r.keys) > 0 {
		h["Idempotency-Key"] = slices.Clone(r.keys)
	}
	if r.who != "" {
		h["Authorization"] = []string{"Bearer " + r.who}
		if _, given := h["X-Tenant-Id"]; !given {
			h["X-Tenant-Id"] = []string{r.who[:strings.LastIndexByte(r.who, ':')]}
		}
	}
	return h
}
