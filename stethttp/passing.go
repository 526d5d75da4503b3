package stethttp

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/stet-dev/stet"
)

// responseCopy is the handler's ResponseWriter in shadow mode. Everything goes to the client's own
// writer at once, and is copied as far as there is room.
type responseCopy struct {
	w http.ResponseWriter

	mu     sync.Mutex // a handler may write from several goroutines, and after it has returned
	over   bool       // copying has ended
	ended  bool       // the handler has
	status int        // 0: not yet
	as     capture    // the answer as if it had been held back
	stated stet.State // by Observe
	cause  string
}

// writer returns what the handler gets. It has exactly the optional methods that the client's own
// writer has.
func (c *responseCopy) writer() http.ResponseWriter {
	f, canFlush := c.w.(http.Flusher)
	_, canHijack := c.w.(http.Hijacker)
	from, canReadFrom := c.w.(io.ReaderFrom)
	push, canPush := c.w.(http.Pusher)
	w, flush, hijack, read := copying{c}, copyingFlush{c, f}, copyingHijack{c}, copyingFrom{c, from}
	switch {
	case canFlush && canHijack && canReadFrom:
		return struct {
			copying
			copyingFlush
			copyingHijack
			copyingFrom
		}{w, flush, hijack, read}
	case canFlush && canHijack:
		return struct {
			copying
			copyingFlush
			copyingHijack
		}{w, flush, hijack}
	case canFlush && canPush:
		return struct {
			copying
			copyingFlush
			http.Pusher
		}{w, flush, push}
	case canFlush:
		return struct {
			copying
			copyingFlush
		}{w, flush}
	case canHijack:
		return struct {
			copying
			copyingHijack
		}{w, hijack}
	}
	return w
}

// copying is a plain ResponseWriter. [http.ResponseController] finds what it lacks below it.
type copying struct{ c *responseCopy }

// Unwrap is for [http.ResponseController].
func (w copying) Unwrap() http.ResponseWriter { return w.c.w }

// Header implements [http.ResponseWriter].
func (w copying) Header() http.Header { return w.c.w.Header() }

// WriteHeader implements [http.ResponseWriter].
func (w copying) WriteHeader(status int) {
	w.c.begin(status)
	w.c.w.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w copying) Write(p []byte) (int, error) {
	w.c.begin(http.StatusOK)
	n, err := w.c.w.Write(p)
	w.c.copy(p[:n])
	return n, err
}

// WriteString implements [io.StringWriter].
func (w copying) WriteString(s string) (int, error) {
	w.c.begin(http.StatusOK)
	n, err := io.WriteString(w.c.w, s)
	w.c.copy([]byte(s[:n]))
	return n, err
}

// CloseNotify implements [http.CloseNotifier], for handlers older than a request's context. If the
// writer below has no such channel, it returns nil.
func (w copying) CloseNotify() <-chan bool {
	if n, ok := w.c.w.(interface{ CloseNotify() <-chan bool }); ok {
		return n.CloseNotify()
	}
	return nil
}

type copyingFlush struct {
	c *responseCopy
	f http.Flusher
}

// Flush implements [http.Flusher].
func (w copyingFlush) Flush() {
	w.c.begin(http.StatusOK)
	w.f.Flush()
}

// FlushError is for [http.ResponseController].
func (w copyingFlush) FlushError() error {
	w.c.begin(http.StatusOK)
	return http.NewResponseController(w.c.w).Flush()
}

type copyingHijack struct{ c *responseCopy }

// Hijack implements [http.Hijacker].
func (w copyingHijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.c.w).Hijack()
	if err == nil {
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		w.c.as.move(hijack)
	}
	return conn, rw, err
}

type copyingFrom struct {
	c    *responseCopy
	from io.ReaderFrom
}

// ReadFrom implements [io.ReaderFrom]: net/http frames a response by how it was written.
func (w copyingFrom) ReadFrom(src io.Reader) (int64, error) {
	w.c.begin(http.StatusOK)
	if w.c.idle() {
		return w.from.ReadFrom(src) // a file is passed on without a copy
	}
	return w.from.ReadFrom(io.TeeReader(src, copyingOnly(w)))
}

type copyingOnly copyingFrom

func (w copyingOnly) Write(p []byte) (int, error) {
	w.c.copy(p)
	return len(p), nil
}

// begin records status and header, once. Interim answers are not part of a result.
func (c *responseCopy) begin(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.status != 0 || c.as.phase() == hijacked || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	c.status = status
	if h := c.w.Header(); !c.over {
		c.as.sent = fieldsOf(h, nil)
		if events, lines := streams(h); events || lines { // which is not kept; one of lines is taken to be flushed
			c.as.move(publish)
			c.as.move(published)
		}
	}
}

// idle reports whether copying has no more use.
func (c *responseCopy) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over || c.ended
}

func (c *responseCopy) copy(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.ended {
		return
	}
	c.as.written += int64(len(p))
	if c.as.phase() == holding && !c.as.oversize && !c.as.buf.Append(p, c.as.x.g.cfg.MaxResponse) {
		c.as.oversize = true
		c.as.buf.Drop()
	}
}

// end records that the handler has ended.
func (c *responseCopy) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.over || c.w == nil {
		return
	}
	c.as.header = c.w.Header().Clone()
	if c.status == 0 {
		c.as.sent = fieldsOf(c.as.header, nil)
	}
}

// drop gives up the copy.
func (c *responseCopy) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.as.buf.Drop()
}

// fill makes x describe the response as if x had held it back.
func (c *responseCopy) fill(x *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.cap.status, x.cap.sent = cmp.Or(c.status, http.StatusOK), slices.Clip(x.cap.sent)
	x.cap.declared = declared(x.cap.header)
	x.declare(c.stated, c.cause)
}

// Observe tells a route in shadow mode the outcome of the request: s is Retryable, Unknown or
// Completed. It is for handlers such as a proxy, which know more than an answer says and have no
// claim to state it on. Outside shadow mode it does nothing. w is the ResponseWriter that the
// handler was given.
func Observe(w http.ResponseWriter, s stet.State, cause string) {
	if own, ok := w.(interface{ observed() *responseCopy }); ok {
		c := own.observed()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stated, c.cause = s, cause
	}
}

// Overhear is [Observe] for the lines of Stet-Outcome that an answer had in its header and its
// trailer. A proxy finds this method by a type assertion.
func (w copying) Overhear(lines []string) {
	if s, cause := readOutcome(lines); s != 0 {
		Observe(w, s, cause)
	}
}

func (w copying) observed() *responseCopy { return w.c }
