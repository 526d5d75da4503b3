package blackbox

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Conn is a connection on which a case writes bytes of its own choice.
type Conn struct {
	net.Conn
	c  *C
	in *bufio.Reader
}

// Dial opens a connection to the server.
func (c *C) Dial() *Conn {
	c.Helper()
	u, err := url.Parse(c.srv.URL(c.node))
	if err != nil {
		c.Fatal(err)
	}
	conn, err := net.DialTimeout("tcp", u.Host, patience)
	if err != nil {
		c.Fatalf("dialling: %v", err)
	}
	c.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		c.Fatal(err)
	}
	return &Conn{Conn: conn, c: c, in: bufio.NewReader(conn)}
}

// head writes a request line, and the fields that say whose request it is; lines are more of them,
// each without its CRLF. The empty line that ends the head is included.
func (c *C) head(line string, lines ...string) string {
	who := c.who("t1:u1")
	all := append([]string{
		line, "Host: raw", CaseHeader + ": " + c.name, "Content-Type: application/json",
		"Authorization: Bearer " + who, "X-Tenant-Id: " + who[:strings.LastIndexByte(who, ':')],
	}, lines...)
	return strings.Join(all, "\r\n") + "\r\n\r\n"
}

// Write sends text as it is.
func (n *Conn) Write(format string, args ...any) {
	n.c.Helper()
	if _, err := fmt.Fprintf(n.Conn, format, args...); err != nil {
		n.c.Fatalf("writing: %v", err)
	}
}

// Read returns the next response, interim ones too: each is an answer of its own.
func (n *Conn) Read() *Answer {
	a := &Answer{c: n.c, req: request{method: "POST", path: "(raw)"}}
	res, err := http.ReadResponse(n.in, &http.Request{Method: "POST"})
	if err != nil {
		a.Err = err
		return a
	}
	a.Status, a.Proto, a.Header, a.Close = res.StatusCode, res.Proto, res.Header, res.Close
	a.Length, a.Encoding = res.ContentLength, res.TransferEncoding
	if a.Status/100 != 1 {
		a.Body, a.Err = io.ReadAll(res.Body)
		res.Body.Close()
		a.Trailer = res.Trailer
	}
	return a
}

// ReadSoon is Read for an answer that must not wait for a timeout of the server's.
func (n *Conn) ReadSoon() *Answer {
	n.c.Helper()
	const soon = 10 * time.Second
	if err := n.SetReadDeadline(time.Now().Add(soon)); err != nil {
		n.c.Fatal(err)
	}
	return n.Read()
}

// Raw sends one request with a body {"a":1} and returns its answer. lines are its own header lines,
// as bytes.
func (c *C) Raw(target string, lines ...string) *Answer {
	c.Helper()
	n := c.Dial()
	defer n.Close()
	n.Write("%s", c.head("POST "+target+" HTTP/1.1", append(lines, "Content-Length: 7", "Connection: close")...)+`{"a":1}`)
	return n.Read()
}
