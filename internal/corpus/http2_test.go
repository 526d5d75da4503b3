package corpus_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// HTTP/2 as it is written on the wire (RFC 9113). The request is ours, frame by frame; for
// everything else, preface and settings and what the server answers, net/http's own client stands
// on the same connection. It believes to have sent a request of its own.

const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameContinuation = 0x9
	endStream         = 0x1
	endHeaders        = 0x4
	frameHead         = 9
	maxFrame          = 16 << 10
)

// framesOf are the frames of a request on stream 1.
func framesOf(lines []string) (frames []byte) {
	type part struct {
		kind byte
		load []byte
	}
	parts := []part{{kind: frameHeaders}}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, " ")
		last := &parts[len(parts)-1]
		switch name {
		case "DATA":
			parts = append(parts, part{frameData, []byte(value)})
		case "TRAILER":
			if len(parts) == 1 || last.kind == frameData {
				parts = append(parts, part{kind: frameHeaders})
				last = &parts[len(parts)-1]
			}
			name, value, _ = strings.Cut(value, " ")
			last.load = appendField(last.load, name, value)
		default:
			last.load = appendField(last.load, name, value)
		}
	}
	for i, p := range parts {
		for first := true; first || len(p.load) > 0; first = false {
			n := min(len(p.load), maxFrame)
			kind, flags := p.kind, byte(0)
			if !first && p.kind == frameHeaders {
				kind = frameContinuation
			}
			if i == len(parts)-1 && (kind == frameHeaders || kind == frameData && n == len(p.load)) {
				flags |= endStream
			}
			if p.kind == frameHeaders && n == len(p.load) {
				flags |= endHeaders
			}
			frames = append(frames, byte(n>>16), byte(n>>8), byte(n), kind, flags, 0, 0, 0, 1)
			frames, p.load = append(frames, p.load[:n]...), p.load[n:]
		}
	}
	return frames
}

// appendField writes a literal field without indexing (RFC 7541 section 6.2.2).
func appendField(b []byte, name, value string) []byte {
	return appendString(appendString(append(b, 0), name), value)
}

func appendString(b []byte, s string) []byte {
	const most = 0x7f
	if len(s) < most {
		return append(append(b, byte(len(s))), s...)
	}
	b = append(b, most)
	n := len(s) - most
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(append(b, byte(n)), s...)
}

// ghost is a connection on which another request is sent than the one that is written to it.
type ghost struct {
	net.Conn
	frames  []byte // instead of its HEADERS
	pending []byte
	begun   bool // the preface went by
}

// Write implements [net.Conn]. net/http's client writes whole frames, but not always one at a time.
func (g *ghost) Write(p []byte) (int, error) {
	g.pending = append(g.pending, p...)
	const preface = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	var out []byte
	if !g.begun && len(g.pending) >= preface {
		out, g.pending, g.begun = append(out, g.pending[:preface]...), g.pending[preface:], true
	}
	for g.begun && len(g.pending) >= frameHead {
		size := frameHead + int(binary.BigEndian.Uint32(g.pending)>>8)
		if len(g.pending) < size {
			break
		}
		if frame := g.pending[:size]; frame[3] == frameHeaders {
			out = append(out, g.frames...)
		} else {
			out = append(out, frame...)
		}
		g.pending = g.pending[size:]
	}
	if len(out) > 0 {
		if _, err := g.Conn.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// speak2 runs a dialogue of HTTP/2: one request.
func (f *face) speak2(d *dialogue) (x exchanged) {
	t := d.turns[0]
	conn, err := f.dial(d.tls)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	dialled := false
	client := &http.Transport{Protocols: p, DisableCompression: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		if dialled {
			return nil, errors.New("corpus: one connection, one request")
		}
		dialled = true
		return &ghost{Conn: conn, frames: framesOf(t.send)}, nil
	}}
	defer client.CloseIdleConnections()
	var got []reply
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		got = append(got, reply{status: strconv.Itoa(code), header: http.Header(h)})
		return nil
	}})
	method := http.MethodGet
	if t.answers[0].head {
		method = http.MethodHead
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://h2/", nil)
	if err != nil {
		panic(err)
	}
	res, err := client.RoundTrip(req)
	if err != nil {
		return exchanged{replies: [][]reply{append(got, reply{status: "reset"})}}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	framing := "chunked"
	if res.ContentLength >= 0 {
		framing = "length"
	}
	got = append(got, reply{status: strconv.Itoa(res.StatusCode), header: res.Header, body: string(body), trailer: res.Trailer, framing: framing, broken: err != nil})
	return exchanged{replies: [][]reply{got}}
}
