package stethttp

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/stet-dev/stet/internal/framing"
	"github.com/stet-dev/stet/internal/ledger"
)

// requestBody is the buffered body of a request. The fingerprint is taken of it, and the handler
// reads it by a [bodyReader].
type requestBody struct {
	buf  ledger.Buffer
	here bool // the request has a body, and it was read
	lent bool // to a reader that may be slower than the exchange
}

// bodyReader is the body of the handler's request. A reader that goes on after the exchange has
// ended, as a proxy's transport may, gets an error instead of another request's bytes.
type bodyReader struct {
	mu   sync.Mutex
	left bytes.Reader
	gone bool
}

var errBodyEnded = errors.New("stethttp: the request has ended; its body can no longer be read")

// read reads the whole body within the limits. If the body is refused, the deadline stays, because
// the server reads some more of it before it answers.
func (b *requestBody) read(w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) (err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if conn, ok := find[readDeadliner](w); ok && within > 0 { // without a deadline the server's own limits hold
		if end, ended := limitArrival(conn, r, within); ended != nil {
			defer func() {
				ended(err == nil)
				if framing.Broken(err) && !time.Now().Before(end) { // net/http reports trailers that stop arriving as too long
					err = os.ErrDeadlineExceeded
				}
			}()
		}
	}
	b.here = true
	return b.buf.Fill(r.Body, r.ContentLength, min(limit, math.MaxInt-1))
}

type readDeadliner interface{ SetReadDeadline(t time.Time) error }

// limitArrival ends the reading of a body that is not here within a time. A server's own
// ReadTimeout is a deadline on the connection already, and counts from before the header; a later
// one would replace it, so that there a timer can only bring it forward. From end on, a body that
// breaks off may be one that came too slowly. The caller calls ended, which is nil if there can be
// no deadline, when it reads no more. If the body is whole, no deadline is left.
func limitArrival(conn readDeadliner, r *http.Request, within time.Duration) (end time.Time, ended func(whole bool)) {
	end = time.Now().Add(within)
	srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if srv == nil || srv.ReadTimeout <= 0 {
		if conn.SetReadDeadline(end) != nil {
			return end, nil
		}
		return end, func(whole bool) {
			if whole {
				_ = conn.SetReadDeadline(time.Time{})
			}
		}
	}
	var mu sync.Mutex
	over := false
	timer := time.AfterFunc(within, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			_ = conn.SetReadDeadline(past)
		}
	})
	if most := time.Now().Add(srv.ReadTimeout / 2); most.Before(end) { // it is not known what the header took of it
		end = most
	}
	return end, func(whole bool) {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		if over = true; whole {
			_ = conn.SetReadDeadline(time.Time{})
		}
	}
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// endUnasked keeps net/http from waiting for a body that its client was never asked for with 100
// (Continue): after another answer the client need not send it (RFC 9110 section 10.1.1).
func endUnasked(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor >= 2 || r.Header["Expect"] == nil || r.Body == nil || r.Body == http.NoBody {
		return
	}
	if conn, ok := find[readDeadliner](w); ok {
		_ = conn.SetReadDeadline(past)
	}
}

// find returns the first writer that is a T, among w and the writers that it wraps. It costs no
// error value if there is none, unlike [http.ResponseController].
func find[T any](w http.ResponseWriter) (found T, ok bool) {
	for ; w != nil; w = unwrap(w) {
		if found, ok = w.(T); ok {
			return found, true
		}
	}
	return found, false
}

// unwrap returns the writer that w wraps, or nil.
func unwrap(w http.ResponseWriter) http.ResponseWriter {
	if u, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		return u.Unwrap()
	}
	return nil
}

func (b *requestBody) bytes() []byte { return b.buf.Bytes() }

// replace makes b, which reads all of bytes, the body of the handler's request. Its length is known
// now, even if the client sent it in chunks. A request with trailers stays chunked, because only
// that framing can forward them.
func (b *bodyReader) replace(r *http.Request, bytes []byte) {
	b.left.Reset(bytes)
	r.Body = b
	if r.ContentLength >= 0 || len(r.Trailer) > 0 {
		return
	}
	r.ContentLength, r.TransferEncoding = int64(len(bytes)), nil
	if r.ContentLength == 0 {
		r.Body = http.NoBody
	}
}

// Read implements [io.Reader] for the handler.
func (b *bodyReader) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return 0, errBodyEnded
	}
	return b.left.Read(p)
}

// Close implements [io.Closer]. The bytes stay until the exchange ends.
func (b *bodyReader) Close() error { return nil }

func (b *bodyReader) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	b.left.Reset(nil)
}

// drop gives the bytes back. It does nothing the second time.
func (b *requestBody) drop() {
	if b.here = false; b.lent {
		b.buf.Leave()
	} else {
		b.buf.Drop()
	}
}

// original returns the request with a body that reads as the client sent it: what was buffered,
// then the rest.
func (b *requestBody) original(r *http.Request) *http.Request {
	if !b.here {
		return r
	}
	b.lent = true
	rest := r.Body
	r2 := r.WithContext(r.Context())
	r2.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(b.bytes()), rest), rest}
	return r2
}
