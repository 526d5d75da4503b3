package gateway

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stet-dev/stet/internal/canon"
)

// A plain exchange is what most are: a request whose header needs no repair and whose short body is
// here, to an upstream without TLS; and an answer of known length whose head is short and usual.
// The gateway forwards it by itself. Where a request is not plain, httputil.ReverseProxy and
// [http.Transport] get all of it; where only the answer is not, ReverseProxy finds it unread on the
// connection that the request was sent on. This file may therefore refuse whatever it likes, and
// what it takes it forwards to the byte as they do.

// request is a plain request in the form in which it is sent.
type request struct {
	bytes.Buffer
	fields fields // scratch of plainRequest
}

// maxFields is how many fields a request may have whose memory is used again. maxUnasked is the
// longest body of a request that passes by for which memory is taken before it has come: its
// length is only announced.
const (
	maxFields  = 256
	maxUnasked = 4 << 10
)

var requests = sync.Pool{New: func() any { return new(request) }}

func (m *request) reuse() {
	if m.Cap() <= 4*maxInMemory && cap(m.fields) <= maxFields {
		m.Reset()
		clear(m.fields)
		requests.Put(m)
	}
}

// plainRequest returns what the upstream gets if the request is plain, else nil. What it has read
// of the body then comes again from a.upload.
func (g *Gateway) plainRequest(a *attempt, r *http.Request) *request {
	switch {
	case !g.transport.plain, !canPeek, r.Body == nil, r.ContentLength < 0, r.ContentLength > maxInMemory, len(r.Trailer) > 0:
		return nil
	case r.Header["Te"] != nil, r.Header["Upgrade"] != nil:
		return nil
	case a.claim == nil && (r.Header["Expect"] != nil || r.ContentLength > maxUnasked):
		return nil
	}
	m := requests.Get().(*request)
	m.fields = g.fieldsOf(m.fields[:0], a, r)
	if !m.writeHead(g, a, r) || !m.writeBody(a, r) {
		m.reuse()
		return nil
	}
	return m
}

// writeHead writes the head as [http.Request.Write] does. It reports false if that would have to
// change something. The body of a guarded request is sent if it is empty, too: see [EmptyChunked].
func (m *request) writeHead(g *Gateway, a *attempt, r *http.Request) bool {
	var u url.URL
	g.aim(&u, r)
	target := u.RequestURI()
	if !canon.IsToken(r.Method) || !plainHost(r.Host) || !plainText(target) || strings.IndexByte(target, ' ') >= 0 {
		return false
	}
	m.WriteString(r.Method)
	m.WriteByte(' ')
	m.WriteString(target)
	m.WriteString(" HTTP/1.1\r\n")
	slices.SortFunc(m.fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	m.writeField("Host", r.Host)
	for _, f := range m.fields { // not from r.Header: Connection may name it
		if f.name == "User-Agent" && len(f.lines) > 0 && f.lines[0] != "" {
			m.writeField(f.name, f.lines[0])
		}
	}
	empty := a.claim != nil && r.ContentLength == 0
	if a.chunked = empty && !g.transport.sized.Load(); a.chunked {
		m.writeField("Transfer-Encoding", "chunked")
	} else if r.ContentLength > 0 || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch ||
		empty && r.Method != http.MethodGet && r.Method != http.MethodHead {
		m.writeField("Content-Length", strconv.FormatInt(r.ContentLength, 10))
	}
	for _, f := range m.fields {
		if !canon.IsToken(f.name) {
			return false
		}
		written := slices.Contains(notAgain, f.name)
		for _, line := range f.lines {
			if !plainText(line) {
				return false
			}
			if !written {
				m.writeField(f.name, line)
			}
		}
	}
	m.WriteString("\r\n")
	return true
}

// notAgain are the fields that net/http writes by itself, or not at all.
var notAgain = []string{"Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer"}

func (m *request) writeField(name, line string) {
	m.WriteString(name)
	m.WriteString(": ")
	m.WriteString(line)
	m.WriteString("\r\n")
}

// writeBody appends the body. The guard has it whole. Of a request that passes by, only as much is
// waited for as a read returns: if more is to come, the upstream need not wait for it.
func (m *request) writeBody(a *attempt, r *http.Request) bool {
	if r.ContentLength == 0 {
		if a.chunked {
			m.WriteString("0\r\n\r\n")
		}
		return true
	}
	m.Grow(int(r.ContentLength))
	body := m.AvailableBuffer()[:r.ContentLength]
	n, err := r.Body.Read(body)
	if a.claim != nil && err == nil {
		var k int
		k, err = io.ReadFull(r.Body, body[n:])
		n += k
	}
	if n < len(body) {
		a.upload.begun, a.upload.ended = slices.Clone(body[:n]), err
		return false
	}
	m.Write(body)
	return true
}

// plainHost reports whether net/http sends a host as it is.
func plainHost(host string) bool { return canon.Only(host, ".-_:[]") }

// plainText reports whether net/http sends a value as it is.
func plainText(s string) bool {
	if s != "" && (s[0] == ' ' || s[len(s)-1] == ' ') {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// exchange sends a plain request and forwards its answer if that is plain, too. It reports false if
// it has left something to do. Then a.asked is the connection on which the answer is; or nil if the
// upstream had ended the connection, and the request may be sent again (RFC 9110 section 9.2.2), or
// has asked for a length. If left is not 0, the answer is plain and the request's time was over
// while its body came: so much of it is left to pass on.
func (g *Gateway) exchange(w http.ResponseWriter, r *http.Request, a *attempt, m *request) (left int64, done bool) {
	c, err := g.transport.send(a, m.Bytes())
	m.reuse()
	if err != nil {
		g.failed(w, r, a, err)
		return 0, true
	}
	head, err := c.peekHead()
	if err == errHTTP2 {
		c.discard()
		a.sent = false
		g.failed(w, r, a, err)
		return 0, true
	}
	if err != nil && c.reused && c.in.Buffered() == 0 && !a.once && r.ContentLength == 0 && a.Err() == nil {
		c.discard()
		g.tellResent(a, err)
		return 0, false
	}
	status := 0
	if head != nil {
		status, _ = strconv.Atoi(string(head[len(statusLine):][:3]))
	}
	if a.lengthRequired(status) && !bytes.Contains(bytes.ToLower(head), []byte("\nstet-outcome")) {
		c.discard()
		a.tryWithLength()
		return 0, false
	}
	a.asked, a.looked = c, err != nil && c.interrupted(err)
	if head == nil || r.Method == http.MethodHead || len(w.Header()) > 0 {
		return 0, false
	}
	length := g.plainHeader(w.Header(), head)
	if length < 0 {
		clear(w.Header())
		return 0, false
	}
	a.watchdog.answer(false)
	g.reach.noteAnswer()
	g.readHeader(a, w.Header(), via(1, 1))
	_, _ = c.in.Discard(len(head))
	c.budget, c.last = math.MaxInt64, failing(status)
	w.WriteHeader(status)
	left = g.pass(w, a, length)
	return left, left == 0
}

const statusLine = "HTTP/1.1 "

// peekHead waits for the head of an answer and returns it with nothing consumed. It returns nil as
// soon as something is not plain, because what follows may be long in coming, or never come.
func (c *directConn) peekHead() ([]byte, error) {
	c.budget = maxHead
	at := 0 // where the line begins that is not complete yet
	for n := 1; n <= c.in.Size(); n = c.in.Buffered() + 1 {
		if _, err := c.in.Peek(n); err != nil {
			return nil, err
		}
		b, _ := c.in.Peek(c.in.Buffered())
		if !c.reused && speaksHTTP2(b) {
			return nil, errHTTP2
		}
		for {
			i := bytes.IndexByte(b[at:], '\n')
			if i < 0 {
				break
			}
			line := b[at : at+i+1]
			at += len(line)
			switch first := at == len(line); {
			case first && !plainStatus(line):
				return nil, nil
			case !first && string(line) == "\r\n":
				return b[:at], nil
			case !first && !plainLine(line):
				return nil, nil
			}
		}
	}
	return nil, nil
}

// plainStatus reports whether an answer begins with a usual status line, and may have a body.
func plainStatus(line []byte) bool {
	const shortest = len(statusLine) + len("200\r\n")
	if len(line) < shortest || string(line[:len(statusLine)]) != statusLine || !printable(line) {
		return false
	}
	code := string(line[len(statusLine):][:3])
	status, err := strconv.Atoi(code)
	after := line[len(statusLine)+3]
	return err == nil && status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified && (after == ' ' || after == '\r')
}

// plainLine reports whether a line is a field by every reading of RFC 9112 section 5.
func plainLine(line []byte) bool {
	name, _, ok := bytes.Cut(line, []byte(":"))
	return ok && canon.IsToken(name) && printable(line)
}

// printable reports whether a line ends in CR LF and has no control characters but tabs before.
func printable(line []byte) bool {
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	for _, c := range text {
		ok = ok && (c >= ' ' && c != 0x7f || c == '\t')
	}
	return ok
}

// plainHeader sets in h, which is empty, the fields of a head, without those of the connection. It
// returns the length of the body, or -1 if the answer is not plain.
func (g *Gateway) plainHeader(h http.Header, head []byte) (length int64) {
	_, rest, _ := bytes.Cut(head, []byte("\r\n"))
	values := make([]string, 0, bytes.Count(rest, []byte("\n")))
	length = -1
	for string(rest) != "\r\n" {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, v, _ := strings.Cut(string(line), ":") // each field has its own memory: few of them are stored
		name, v = textproto.CanonicalMIMEHeaderKey(name), strings.Trim(v, " \t")
		switch name {
		case "Content-Length":
			n, err := strconv.ParseUint(v, 10, 63)
			if err != nil || length >= 0 {
				return -1
			}
			length = int64(n)
		case "Content-Type":
			if strings.Contains(strings.ToLower(v), "event-stream") {
				return -1
			}
		case "Connection":
			if !strings.EqualFold(v, "keep-alive") {
				return -1
			}
			continue
		case "Keep-Alive":
			g.transport.heed([]string{v})
			continue
		case "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Pragma":
			return -1
		}
		if have := h[name]; have != nil {
			h[name] = append(have, v)
			continue
		}
		values = append(values, v)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return length
}

// pass forwards the body of a plain answer, first what is here of it. It returns how much is left
// when the time of a guarded request is over.
func (g *Gateway) pass(w http.ResponseWriter, a *attempt, length int64) (left int64) {
	c := a.asked
	here, err := c.in.Peek(int(min(length, int64(c.in.Buffered()))))
	if len(here) > 0 {
		_, err = w.Write(here)
		_, _ = c.in.Discard(len(here))
	}
	if left = length - int64(len(here)); left > 0 && err == nil {
		b := copyBuffers.Get()
		defer copyBuffers.Put(b)
		for left > 0 && err == nil {
			var n int
			if n, err = c.in.Read(b[:min(left, int64(len(b)))]); err != nil {
				if a.looked = c.interrupted(err); a.looked {
					return left
				}
				if err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				if a.cutOff(err); a.claim == nil && a.Err() == nil {
					g.warn(a, "the upstream's answer broke off", err)
				}
				break
			}
			left -= int64(n)
			_, err = w.Write(b[:n])
		}
	}
	if err != nil {
		c.discard()
		panic(http.ErrAbortHandler)
	}
	c.release()
	return 0
}
