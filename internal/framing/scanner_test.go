package framing

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stet-dev/stet/internal/door"
)

// pieces is a connection that is read in pieces.
type pieces struct {
	net.Conn
	rest []byte
	cut  func(n int) int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.cut(len(p.rest)))], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// through returns what net/http reads of a stream, when it comes and is read in pieces.
func through(stream []byte, cut, take func(int) int) []byte {
	c := &conn{Conn: &pieces{rest: bytes.Clone(stream), cut: cut}, server: &listener{maxHeld: 1 << 20}}
	var all []byte
	for b := make([]byte, 4096); ; {
		n, err := c.Read(b[:take(len(b))])
		if all = append(all, b[:n]...); err != nil {
			return all
		}
	}
}

func whole(n int) int { return n }
func one(int) int     { return 1 }

// request is what a handler can know of one.
type request struct {
	Method, URI, Proto, Body string
	Header, Trailer          http.Header
	Length                   int64
	Coding                   []string
	head                     []byte // as it was received
	err                      bool   // of its body
}

// requests reads a stream as net/http's server does, with the checks of its own that are about the
// form of a head.
func requests(stream []byte) (all []request) {
	raw := bytes.NewReader(stream)
	in := bufio.NewReader(raw)
	at := func() int { return len(stream) - raw.Len() - in.Buffered() }
	for method := ""; ; {
		if method == http.MethodPost {
			b, _ := in.Peek(4)
			_, _ = in.Discard(len(b) - len(bytes.TrimLeft(b, "\r\n")))
		}
		from := at()
		r, err := http.ReadRequest(in)
		if err != nil || r.ProtoMajor != 1 && (r.ProtoMajor != 2 || r.ProtoMinor != 0 || r.Method != "PRI" || r.RequestURI != "*") {
			return all
		}
		for name := range r.Header {
			if strings.Contains(name, " ") {
				return all
			}
		}
		head := stream[from:at()]
		if r.ProtoMajor == 2 && bare(r.Header) && bytes.ContainsRune(head, ':') {
			return all
		}
		got := request{Method: r.Method, URI: r.RequestURI, Proto: r.Proto, Header: r.Header, Length: r.ContentLength,
			Coding: r.TransferEncoding, head: head}
		body, err := io.ReadAll(r.Body)
		got.Body, got.Trailer, got.err = string(body), r.Trailer, err != nil
		if all = append(all, got); err != nil || r.Close {
			return all
		}
		method = r.Method
	}
}

// bare reports a header that nothing is left of but perhaps the mark. net/http takes out the two
// fields about the body's end, and then takes PRI for the beginning of HTTP/2; with the mark it
// refuses that, since it has no Host.
func bare(h http.Header) bool {
	for name := range h {
		if name != door.BadFrame {
			return false
		}
	}
	return true
}

// uncertain is the rule of RFC 9112 section 6.1, read slowly from a head that net/http takes.
func uncertain(head []byte) bool {
	lines := strings.Split(string(head), "\n")
	var length, coding bool
	for _, line := range lines[1:] {
		name, _, ok := strings.Cut(line, ":")
		length = length || ok && strings.EqualFold(name, "Content-Length")
		coding = coding || ok && strings.EqualFold(name, "Transfer-Encoding")
	}
	version := strings.TrimSuffix(lines[0], "\r")
	version = version[strings.LastIndex(version, " ")+1:]
	return coding && (length || version < "HTTP/1.1")
}

// check compares what net/http makes of a stream with what it makes of the stream that went
// through, and returns that.
func check(t *testing.T, stream []byte, seed uint64) []byte {
	t.Helper()
	out := through(stream, whole, whole)
	rnd := rand.New(rand.NewPCG(seed, 1))
	random := func(n int) int { return 1 + rnd.IntN(min(n, 1+rnd.IntN(64))) }
	for name, cuts := range map[string][2]func(int) int{
		"byte by byte": {one, whole}, "read byte by byte": {whole, one}, "at random": {random, whole}, "both": {random, random},
	} {
		if other := through(stream, cuts[0], cuts[1]); !bytes.Equal(other, out) {
			t.Fatalf("%q\nin one  %q\n%s %q", stream, out, name, other)
		}
	}
	if len(out) != len(stream) {
		t.Fatalf("%q became %q", stream, out)
	}
	before, after := requests(stream), requests(out)
	if len(before) != len(after) {
		t.Fatalf("%q\nbecame\n%q\n%d requests became %d", stream, out, len(before), len(after))
	}
	for i, b := range before {
		a := after[i]
		sent, marked := b.Header[door.BadFrame], a.Header[door.BadFrame]
		if (len(marked) > len(sent)) != uncertain(b.head) {
			t.Fatalf("%q: marked %q", b.head, marked)
		}
		delete(a.Header, door.BadFrame)
		delete(b.Header, door.BadFrame)
		a.head, b.head = nil, nil
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%q\nbecame\n%q\n%+v became\n%+v", stream, out, b, a)
		}
	}
	return out
}

// streams are heads and bodies in which something is odd.
var streams = []string{
	"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcPOST /2 HTTP/1.1\r\nHost: x\r\ncontent-length:0\r\n\r\n\r\nGET /3 HTTP/1.1\nHost: x\n\n",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;ext=\"x\"\r\n0123456789\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n1 \t\r\na\r\n000\r\nT: Content-Length\r\n more\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGPOST / HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.1\r\nTRANSFER-encoding:CHUNKED\r\nHost: x\r\nContent-LENGTH:\r\n 6\r\nX: y\r\n\r\n0\r\n\r\nPOST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1",
	"POST / HTTP/1.1\r\nContent-Length: 6\r\nX: y\r\nContent-Length:  6 \r\nTransfer-Encoding:\r\n\tchunked\r\nHost: x\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 01\r\n\r\n1",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n1GET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: identity\r\n\r\nabc",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n \r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent\rLength: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.0\r\nContent-Length: 5\r\nTransfer-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.0\r\nTransfer-Encoding: a\r\nTransfer-Encoding: b\r\nContent-Length: 1\r\n\r\n1",
	"PRI * HTTP/2.0\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\nHost: x\r\n\r\n0\r\n\r\n",
	"PRI * HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"PRI * HTTP/2.0\r\n\rX: y\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"PRI * HTTP/2.0\nContent-Length: 000\nTransfer-Encoding: chunked\n\n0\r\n\r\n0 * HTTP/1.0\n\n",
	"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5;a=b;c\r\nhello\r\n0;x\r\nA: b\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5 ;x\r\nhello\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
	"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\n\r\n\r\n\n\rGET /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"GET / HTTP/1.1\r\n Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"GET / HTTP/1.1\r\nStet-Bad-Frame: x\r\nHost: x\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("c", 9000) + "\r\nContent-Length: 2\r\nX: " + strings.Repeat("x", 9000) + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"P / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 18446744073709551617\r\n\r\n0\r\n\r\n",
	"P / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 9223372036854775807\r\n\r\n0\r\n\r\n",
	"P / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 9223372036854775808\r\n\r\n0\r\n\r\n",
}

// C05: RFC 9112 section 6.1. What net/http makes of a stream stays what it was, but for the mark.
func TestMarks(t *testing.T) {
	for i, s := range streams {
		check(t, []byte(s), uint64(i))
	}
	for _, c := range []struct{ before, after string }{
		{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
			"POST / HTTP/1.1\r\nHost: x\r\nStet-Bad-Frame: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"},
		{"POST / HTTP/1.1\nTransfer-Encoding: chunked\ncontent-length:6\n\n0\r\n\r\n",
			"POST / HTTP/1.1\nTransfer-Encoding: chunked\nStet-Bad-Frame:6\n\n0\r\n\r\n"},
		{"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
			"POST / HTTP/1.0\r\nStet-Bad-Frame:  : chunked\r\n\r\n"},
	} {
		if got := check(t, []byte(c.before), 1); string(got) != c.after {
			t.Errorf("%q became %q", c.before, got)
		}
	}
}

// Requests follow each other on a connection, and the scanner never loses its place between them.
func TestMarksOnKeptConnections(t *testing.T) {
	kept := slices.DeleteFunc(slices.Clone(streams), func(s string) bool {
		next := requests([]byte(s + "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"))
		return len(next) == 0 || next[len(next)-1].URI != "/next"
	})
	if len(kept) < 10 {
		t.Fatalf("only %d streams leave the connection open", len(kept))
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		var all strings.Builder
		for range 1 + rnd.IntN(6) {
			all.WriteString(kept[rnd.IntN(len(kept))])
		}
		check(t, []byte(all.String()), uint64(i))
	}
}

func FuzzMarks(f *testing.F) {
	for i, s := range streams {
		f.Add([]byte(s), uint64(i))
	}
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) { check(t, stream, seed) })
}

// A head is held back for as long as net/http's own limit for it, and not longer.
func TestLongHeads(t *testing.T) {
	const limit = 10_000
	c := &conn{Conn: &pieces{rest: []byte("GET / HTTP/1.1\r\nContent-Length: 1\r\nX: " + strings.Repeat("x", 2*limit)), cut: whole},
		server: &listener{maxHeld: limit}}
	got, err := io.ReadAll(c)
	if err != errHead || len(got) <= limit {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// After a hijack only the hijacker reads the connection.
func TestHijacked(t *testing.T) {
	const held, after = "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-", "Encoding: chunked\r\n\r\n"
	p := &pieces{rest: []byte(held + after), cut: func(n int) int { return max(1, n-len(after)) }}
	c := &conn{Conn: p, server: &listener{maxHeld: 1 << 20}}
	b := make([]byte, 100)
	n, err := c.Read(b)
	c.plain.Store(true)
	rest, err2 := io.ReadAll(c)
	if got := string(b[:n]) + string(rest); got != held+after || err != nil || err2 != nil {
		t.Errorf("%q %v %v", got, err, err2)
	}
}

const usual = "POST /v1/payments HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: %d\r\n" +
	"Accept: application/json\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\nContent-Type: application/json\r\n" +
	"Idempotency-Key: \"8e03978e-40d5-43e8-bc93-6894a57f9324\"\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n" +
	"Accept-Encoding: gzip\r\n\r\n"

func BenchmarkScanner(b *testing.B) {
	body := strings.Repeat("x", 1000)
	both := strings.Replace(usual, "Content-Length: %d", "Transfer-Encoding: chunked", 1) + "3e8\r\n" + body + "\r\n0\r\n\r\n"
	for name, stream := range map[string]string{"length": fmt.Sprintf(usual, len(body)) + body, "chunked": both} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			s := scanner{state: betweenHead}
			for buf := []byte(stream); b.Loop(); {
				if n := s.follow(buf); n != len(buf) || s.state != betweenHead {
					b.Fatal(n, s.state)
				}
			}
		})
	}
}
