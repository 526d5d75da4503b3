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
)

// buffers are reused between requests; what grew large is left to the garbage collector.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

const reusable = 64 << 10

// ahead is how much memory a body gets before its bytes are there: clients that announce much and send nothing must not use up
// what all may buffer.
const ahead = reusable

func recycle(b *[]byte) {
	if b != nil && cap(*b) <= reusable {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// requestBody is the buffered body of a request: what the fingerprint is taken of and what the handler reads. Whoever reads
// it after the exchange has ended (a proxy's transport may) gets an error, not another request's bytes.
type requestBody struct {
	limits *Limits
	held   int64

	mu   sync.Mutex
	data *[]byte
	at   int
	gone bool
}

var (
	errTooLarge  = errors.New("stethttp: the request body is over the limit")
	errNoBuffer  = errors.New("stethttp: too many bytes are buffered")
	errBodyEnded = errors.New("stethttp: the request has ended; its body can no longer be read")
)

// read takes the whole body in, or as much as the limits allow. Of a body that is refused, the server reads some more before it
// answers: for that the deadline stays.
func (b *requestBody) read(w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) (err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if conn := deadliner(w); conn != nil && within > 0 { // without one the server's own limits hold
		end := time.Now().Add(within)
		if conn.SetReadDeadline(end) == nil {
			defer func() {
				switch {
				case err == nil:
					_ = conn.SetReadDeadline(time.Time{})
				case framing.Broken(err) && !time.Now().Before(end): // net/http takes trailers that stop coming for too long ones
					err = os.ErrDeadlineExceeded
				}
			}()
		}
	}
	limit = min(limit, math.MaxInt-1)
	if r.ContentLength > limit {
		return errTooLarge
	}
	b.data = buffers.Get().(*[]byte)
	whole := int(limit) + 1
	if n := int(r.ContentLength); n > 0 {
		whole = n + 1
		if !b.grow(min(whole, ahead)) {
			return errNoBuffer
		}
	}
	for {
		if len(*b.data) == cap(*b.data) && !b.grow(min(2*cap(*b.data), whole)) {
			return errNoBuffer
		}
		buf := *b.data
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		*b.data = buf[:len(buf)+n]
		switch {
		case int64(len(*b.data)) > limit:
			return errTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

type readDeadliner interface{ SetReadDeadline(time.Time) error }

// deadliner finds what [http.ResponseController] would, without paying for an error where there is none.
func deadliner(w http.ResponseWriter) readDeadliner {
	for {
		if d, ok := w.(readDeadliner); ok {
			return d
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = u.Unwrap()
	}
}

// grow makes room for size bytes in all, held against the total.
func (b *requestBody) grow(size int) bool {
	more := int64(size) - b.held
	if more > 0 {
		if !b.limits.hold(more) {
			return false
		}
		b.held = int64(size)
	}
	if cap(*b.data) < size {
		bigger := make([]byte, len(*b.data), size)
		copy(bigger, *b.data)
		*b.data = bigger
	}
	return true
}

func (b *requestBody) bytes() []byte {
	if b.data == nil {
		return nil
	}
	return *b.data
}

// replace makes b the body of the handler's request. Its length is known now, however the client has framed it; with trailers it
// stays open, as only a body in chunks can carry them on.
func (b *requestBody) replace(r *http.Request) {
	r.Body = b
	if r.ContentLength >= 0 || len(r.Trailer) > 0 {
		return
	}
	r.ContentLength, r.TransferEncoding = int64(len(*b.data)), nil
	if r.ContentLength == 0 {
		r.Body = http.NoBody
	}
}

// Read implements [io.Reader] for the handler.
func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.gone:
		return 0, errBodyEnded
	case b.at == len(b.bytes()):
		return 0, io.EOF
	}
	n := copy(p, (*b.data)[b.at:])
	b.at += n
	return n, nil
}

// Close implements [io.Closer]. The bytes stay until the exchange ends.
func (b *requestBody) Close() error { return nil }

// drop gives the bytes back.
func (b *requestBody) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return
	}
	b.gone = true
	b.limits.free(b.held)
	recycle(b.data)
	b.data = nil
}

// original returns the request with a body that reads as the client sent it: what was buffered, then the rest.
func (b *requestBody) original(r *http.Request) *http.Request {
	if b.data == nil {
		return r
	}
	rest := r.Body
	r2 := r.WithContext(r.Context())
	r2.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(bytes.Clone(*b.data)), rest), rest}
	return r2
}
