package stethttp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/framing"
	"github.com/stet-dev/stet/internal/ledger"
)

// capture is the handler's ResponseWriter. It holds the response back until it is stored, and Flush
// does nothing meanwhile, so that no status leaves before the record is durable. A response that
// cannot be held, because it is a stream or over the limit, is announced in the record first and
// then passed on while it is written.
type capture struct {
	x *run
	w http.ResponseWriter

	progress
	header   http.Header
	status   int // 0: not yet
	sent     []stet.Field
	declared int64 // Content-Length, or -1
	written  int64
	buf      ledger.Buffer
	oversize bool
	unframed bool // its end may be where it was cut off
	tooMuch  bool // it would have to leave before the commit; see Atomic
	refused  bool // the held response is a refusal by Guard.Refuse
	lines    bool // it is a stream of lines as soon as it is flushed
	gaveUp   bool // http.TimeoutHandler has answered, and the handler may go on

	tx     stet.Transaction // of [Atomic], until it ends; guarded by mu
	back   atomic.Bool      // the handler has returned or panicked: it works no more
	looked chan struct{}    // closed after the last look of a lasting handler; nil: none is waited for
	saying chan struct{}    // closed when an interim answer has left; nil: none is on its way
	due    error            // why the run's time was over while one was
	goesOn bool             // the handler has returned, and its work goes on
	body   bodyReader
	few    [2]stet.Field // sent, if it has no more
}

// Header implements [http.ResponseWriter].
func (c *capture) Header() http.Header { return c.header }

// Unwrap lets [http.ResponseController] reach the connection, for deadlines and full duplex.
func (c *capture) Unwrap() http.ResponseWriter { return c.w }

// WriteHeader implements [http.ResponseWriter]. Interim responses are passed on at once and are not
// part of the result.
func (c *capture) WriteHeader(status int) {
	c.lock()
	defer c.mu.Unlock()
	switch {
	case c.status != 0 || !c.phase().collects():
		c.unheard()
		return
	case status < 100 || status > 999: // as in net/http; a stored one would break every replay
		panic(fmt.Sprintf("stethttp: invalid WriteHeader code %d", status))
	case status < 200 && status != http.StatusSwitchingProtocols:
		c.interim(status)
		return
	}
	c.begin(status)
}

// interim passes on an interim answer, without what is for the layer. The lock is not held while
// the client takes it: the run may end meanwhile, and the client is told so afterwards.
func (c *capture) interim(status int) {
	if !c.x.r.ProtoAtLeast(1, 1) || c.phase().told() { // HTTP/1.0 has none (RFC 9110 section 15.2)
		return
	}
	h := c.w.Header()
	before := h.Clone()
	maps.Copy(h, c.header)
	maps.DeleteFunc(h, func(name string, _ []string) bool { return strings.HasPrefix(door.Name(name), "Stet-") })
	c.saying = make(chan struct{})
	c.outside(func() { c.w.WriteHeader(status) })
	clear(h)
	maps.Copy(h, before)
	close(c.saying)
	c.saying = nil
	if c.due != nil {
		c.x.timeOut(c.due)
	}
}

// lock takes the lock when no interim answer is on its way.
func (c *capture) lock() {
	c.mu.Lock()
	for c.saying != nil {
		said := c.saying
		c.outside(func() { <-said })
	}
}

// outside calls f without the lock.
func (c *capture) outside(f func()) {
	c.mu.Unlock()
	defer c.mu.Lock()
	f()
}

// begin fixes status and headers.
func (c *capture) begin(status int) {
	c.status, c.gaveUp = status, c.ofTimeoutHandler(status)
	c.declared = declared(c.header)
	c.sent = fieldsOf(c.header, c.few[:0])
	if c.x.g.cfg.requestIDs() {
		c.sent = c.x.identified(c.sent)
	}
	var events bool
	if events, c.lines = streams(c.header); status == http.StatusSwitchingProtocols || events {
		c.stream()
	}
}

// declared returns the Content-Length of a header, or -1 if it has none.
func declared(h http.Header) int64 {
	if lines := h["Content-Length"]; len(lines) > 0 {
		if n, err := strconv.ParseInt(lines[0], 10, 64); err == nil && n >= 0 {
			return n
		}
	}
	return -1
}

// lineTypes are of streams whose messages are lines. Answers have them, too, that are short and
// have an end: such a stream is one that has no length and is flushed.
var lineTypes = []string{"application/x-ndjson", "application/ndjson", "application/jsonl", "application/stream+json"}

// streams reports whether an answer is a stream of events, or may be one of lines.
func streams(h http.Header) (events, lines bool) {
	v := h.Get("Content-Type")
	if len(v) < len("application/jsonl") { // the shortest
		return false, false
	}
	mt, _, err := mime.ParseMediaType(v)
	return err == nil && mt == "text/event-stream", err == nil && slices.Contains(lineTypes, mt) && declared(h) < 0
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// Write implements [http.ResponseWriter].
func (c *capture) Write(p []byte) (int, error) {
	c.lock()
	defer c.mu.Unlock()
	switch p := c.phase(); {
	case p == hijacked:
		return 0, http.ErrHijacked
	case p.over():
		c.unheard()
		return 0, http.ErrHandlerTimeout
	}
	if c.status == 0 {
		c.begin(http.StatusOK)
	}
	if !bodyAllowed(c.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if c.declared >= 0 && c.written+int64(len(p)) > c.declared {
		return 0, http.ErrContentLength
	}
	c.written += int64(len(p))
	if c.phase().collects() && (c.oversize || !c.buf.Append(p, c.x.g.cfg.MaxResponse)) {
		c.oversize = true
		c.stream()
	}
	switch {
	case c.phase() == streaming:
		return c.pass(p)
	case c.tooMuch:
		return 0, errTooMuch
	}
	return len(p), nil
}

// stream announces in the record that the response is about to leave, sends what is held, and lets
// the rest pass. If the announcement cannot be stored, the policy decides as for a result that
// cannot be stored.
func (c *capture) stream() {
	if c.tx != nil {
		c.tooMuch = c.tooMuch || !c.phase().told()
		return
	}
	if !c.move(publish) { // the client already has an answer
		return
	}
	err := c.x.claim.Publish(c.x.r.Context())
	if err != nil && (c.x.g.cfg.Withhold || errors.Is(err, stet.ErrFenced)) {
		c.x.fencedOff()
		return
	}
	c.move(published)
	announced := c.announced()
	if names := announced.List(outcomeHeader); len(names) > 0 { // which is not for the client
		c.w.Header()["Trailer"] = names
	}
	c.x.sendHead(c.sent, c.status, nil)
	if c.bytes() != nil {
		c.unload()
		c.buf.Drop() // a streamed response is not kept, and may take long
	}
}

// unload sends what is held. If the write fails, the server may still be reading the bytes, as
// HTTP/2 does when a stream is reset. They are then not used again, so that they cannot reach
// another client.
func (c *capture) unload() {
	if _, err := c.w.Write(c.bytes()); err != nil {
		c.buf.Leave()
	}
}

// pass writes to the client. If the response is over the limit, a client that has gone does not
// stop the handler: its work is worth finishing. An event stream ends with its reader.
func (c *capture) pass(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil && c.oversize {
		return len(p), nil
	}
	return n, err
}

// Flush implements [http.Flusher]. It flushes a response that is being streamed, begins to stream
// one whose messages are lines, and does nothing for one that is held.
func (c *capture) Flush() { _ = c.FlushError() }

// FlushError is Flush for [http.ResponseController].
func (c *capture) FlushError() error {
	c.lock()
	defer c.mu.Unlock()
	if c.lines && c.phase().collects() {
		c.stream()
	}
	if c.phase() != streaming {
		return nil
	}
	return http.NewResponseController(c.w).Flush()
}

// Hijack implements [http.Hijacker]. What happens on the connection afterwards is not seen, so the
// outcome is unknown.
func (c *capture) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.lock()
	defer c.mu.Unlock()
	if p := c.phase(); p.told() || p.over() { // the connection already carries an answer
		return nil, nil, http.ErrHandlerTimeout
	}
	conn, rw, err := http.NewResponseController(c.w).Hijack()
	if err == nil {
		c.move(hijack)
	}
	return conn, rw, err
}

// complete sets what the handler left open: the implicit status, and the Content-Type that net/http
// would have guessed.
func (c *capture) complete() {
	if c.status == 0 {
		c.begin(http.StatusOK)
	}
	if _, set := c.header["Content-Type"]; !set && c.phase().collects() && c.bytes() != nil && c.header.Get("Content-Encoding") == "" {
		c.sent = append(c.sent, stet.Field{Name: "Content-Type", Value: http.DetectContentType(c.bytes())})
		byName(c.sent)
	}
}

// truncated reports whether the handler announced a longer body than it wrote.
func (c *capture) truncated() bool {
	return c.declared >= 0 && c.written < c.declared && bodyAllowed(c.status) && c.x.r.Method != http.MethodHead
}

// Unframed is for a handler whose answer comes from a connection that has ended. Nothing else tells
// where such an answer ends, so that one that was cut off looks like a whole one (RFC 9112 section
// 6.3). Of JSON it can be told: cut reports that a piece is missing, and whole that none is. If
// neither can be told, the answer is the result, and gets no length. A proxy finds this method by a
// type assertion on its ResponseWriter, and calls it when it has written the answer.
func (c *capture) Unframed() (whole, cut bool) {
	c.lock()
	defer c.mu.Unlock()
	if c.oversize || !c.phase().collects() || !isJSON(c.header) {
		c.unframed = true
		return false, false
	}
	whole = json.Valid(bytes.TrimPrefix(c.bytes(), byteOrderMark))
	return whole, !whole
}

// byteOrderMark may be ignored where JSON begins (RFC 8259 section 8.1).
var byteOrderMark = []byte("\xef\xbb\xbf")

// isJSON reports whether a body is JSON, in no coding.
func isJSON(h http.Header) bool {
	mt, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (mt == "application/json" || strings.HasSuffix(mt, "+json")) && h.Get("Content-Encoding") == ""
}

func (c *capture) bytes() []byte { return c.buf.Bytes() }

// outcomeLines removes Stet-Outcome from the handler's header and returns its lines, whether set as
// a header or as a trailer.
func (c *capture) outcomeLines() []string {
	const trailer = http.TrailerPrefix + outcomeHeader
	lines := slices.Concat(c.header[outcomeHeader], c.header[trailer])
	delete(c.header, outcomeHeader)
	delete(c.header, trailer)
	return lines
}

// announced returns the names of the trailers that the handler has announced.
func (c *capture) announced() framing.Names { return framing.Listed(c.header["Trailer"]) }

// endStream sends the trailers of a streamed response, also those that were not announced.
func (c *capture) endStream(trailer []stet.Field) {
	h, announced := c.w.Header(), c.announced()
	for _, f := range trailer {
		if !announced.Has(f.Name) {
			f.Name = http.TrailerPrefix + f.Name
			_ = http.NewResponseController(c.w).Flush() // else a short body would get a length and no trailers
		}
		h[f.Name] = append(h[f.Name], f.Value)
	}
}

// trailers returns what the handler set after the body: fields announced in Trailer, or set with
// [http.TrailerPrefix].
func (c *capture) trailers() []stet.Field {
	announced := c.announced()
	var fields []stet.Field
	for name, values := range c.header {
		bare, prefixed := strings.CutPrefix(name, http.TrailerPrefix)
		if prefixed {
			bare = http.CanonicalHeaderKey(bare)
		}
		if door.Name(bare) == outcomeHeader {
			continue
		}
		if prefixed || announced.Has(name) {
			for _, v := range values {
				fields = append(fields, stet.Field{Name: bare, Value: cleanValue(v)})
			}
		}
	}
	byName(fields)
	return fields
}

// close ends the writer if nothing else has, because the store itself panicked.
func (c *capture) close() {
	c.lock()
	defer c.mu.Unlock()
	c.move(end)
	c.buf.Leave()
}

// release ends the writer: what the handler writes from now on is lost. err is the error of storing
// the response. If the store did not take it, the engine keeps the bytes, and counts them: see
// [stet.Config].MaxUnstored.
func (c *capture) release(err error) {
	c.move(end)
	if err != nil {
		c.buf.Leave()
		return
	}
	c.buf.Drop()
}
