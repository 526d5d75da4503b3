package corpus_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// patience bounds everything that a case waits for. Nothing waits for it to pass.
const patience = 10 * time.Second

// reply is an answer as a client got it.
type reply struct {
	status  string
	header  http.Header
	trailer http.Header
	body    string
	framing string // how the body's end was told
	broken  bool   // the body ended early
}

// exchanged is what became of a dialogue.
type exchanged struct {
	replies [][]reply // by turn
	kept    bool
	raw     []byte // what the client received; of HTTP/1 without TLS
}

func (f *face) dial(secure bool) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	addr := f.addr
	if secure {
		addr = f.tlsAddr
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil || !secure {
		return conn, err
	}
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}), nil
}

// speak runs a dialogue of HTTP/1. Its last turn ends with a probe, so that whatever the server
// makes of the bytes is there when the probe has its answer, or the connection its end.
func (f *face) speak(d *dialogue) (x exchanged) {
	conn, err := f.dial(d.tls)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	var raw bytes.Buffer
	in := bufio.NewReader(io.TeeReader(conn, &raw))
	for i, t := range d.turns {
		last := i == len(d.turns)-1
		out := strings.Join(t.send, "")
		if last && !d.shut {
			out += "GET " + probe + " HTTP/1.1\r\nHost: probe\r\n\r\n"
		}
		_, _ = io.WriteString(conn, out) // a server that has closed tells by its answer
		if last && d.shut {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		var got []reply
		for last || len(got) < len(t.answers) {
			head := len(got) < len(t.answers) && t.answers[len(got)].head
			r, ok := read(in, head)
			if !ok {
				break
			}
			if last && r.header.Get(probeField) != "" {
				x.kept = true
				break
			}
			got = append(got, r)
		}
		x.replies = append(x.replies, got)
	}
	x.raw = raw.Bytes()
	return x
}

// read takes an answer in, or reports that there is none.
func read(in *bufio.Reader, head bool) (r reply, ok bool) {
	req := &http.Request{Method: http.MethodGet}
	if head {
		req.Method = http.MethodHead
	}
	res, err := http.ReadResponse(in, req)
	if err != nil {
		return r, false
	}
	r = reply{status: res.Status[:3], header: res.Header, framing: "length"}
	switch {
	case len(res.TransferEncoding) > 0:
		r.framing = "chunked"
	case res.ContentLength < 0:
		r.framing = "close"
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return r, true
	}
	body, err := io.ReadAll(res.Body)
	r.body, r.trailer = string(body), res.Trailer
	r.broken = err != nil && r.framing != "close" // a reset is as good an end as another where nothing else tells one
	return r, true
}

// run plays all dialogues of a case.
func (f *face) run(s *script) []exchanged {
	var all []exchanged
	for _, d := range s.conns {
		speak := f.speak
		if d.http2 {
			speak = f.speak2
		}
		all = append(all, speak(d))
	}
	return all
}
