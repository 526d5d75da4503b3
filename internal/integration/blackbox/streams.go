package blackbox

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// sse: three events, each flushed. With ?hold those after the first wait for a release; with
// ?state=WORD it states an outcome by header, as an upstream does.
func (c *call) sse() {
	c.body()
	c.effect()
	c.w.Header().Set("Content-Type", "text/event-stream")
	if word := c.q.Get("state"); word != "" {
		c.w.Header().Set(OutcomeHeader, word)
	}
	c.w.WriteHeader(http.StatusOK)
	c.pieces("data: %d\n\n")
}

// chunked: 201 in three flushed pieces. With ?hold those after the first wait for a release.
func (c *call) chunked() {
	c.body()
	c.effect()
	c.w.Header().Set("Content-Type", "text/plain")
	c.w.WriteHeader(http.StatusCreated)
	c.pieces("piece %d\n")
}

func (c *call) pieces(format string) {
	for i := range 3 {
		fmt.Fprintf(c.w, format, i)
		http.NewResponseController(c.w).Flush()
		if i == 0 && c.q.Has("hold") {
			_ = c.f.pass(context.WithoutCancel(c.r.Context()), c.id)
		}
	}
}

// copy: io.Copy uses ReadFrom where the writer has it, and so goes past Write.
func (c *call) copy() {
	c.body()
	c.effect()
	c.w.Header().Set("Content-Type", "application/octet-stream")
	c.w.WriteHeader(http.StatusCreated)
	// A reader without WriteTo: otherwise io.Copy would prefer that one.
	io.Copy(c.w, io.LimitReader(&zeros{}, 100_000))
}

type zeros struct{}

func (*zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// trailer: one trailer that was announced, one that was not.
func (c *call) trailer() {
	c.body()
	c.effect()
	c.w.Header().Set("Trailer", "X-T")
	c.w.Header().Set("Content-Type", "text/plain")
	c.w.WriteHeader(http.StatusCreated)
	io.WriteString(c.w, "with trailers")
	http.NewResponseController(c.w).Flush()
	c.w.Header().Set("X-T", "announced")
	c.w.Header().Set(http.TrailerPrefix+"X-U", "unannounced")
}

// early-hints: 103 with a Link of its own, then 201. With ?hold the 201 waits for a release.
func (c *call) earlyHints() {
	c.body()
	n := c.effect()
	c.w.Header().Set("Link", "</style.css>; rel=preload")
	c.w.Header().Set("X-Hint", "103 only")
	c.w.WriteHeader(http.StatusEarlyHints)
	if c.q.Has("hold") {
		_ = c.f.pass(context.WithoutCancel(c.r.Context()), c.id)
	}
	c.w.Header().Del("Link")
	c.w.Header().Del("X-Hint")
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("X-Final", "201")
	c.w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(c.w, `{"id":"%d"}`, n)
}

// controller: tries what http.ResponseController offers, and tells what worked.
func (c *call) controller() {
	c.body()
	c.effect()
	rc := http.NewResponseController(c.w)
	far := time.Now().Add(time.Hour)
	errs := map[string]error{"read": rc.SetReadDeadline(far), "write": rc.SetWriteDeadline(far)}
	c.w.Header().Set("Content-Type", "text/plain")
	c.w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(c.w, "read:%v write:%v", errs["read"], errs["write"])
	rc.Flush()
	io.WriteString(c.w, " after")
}

// upgrade: leaves HTTP for a protocol that returns each line, once.
func (c *call) upgrade() {
	c.effect()
	conn, rw, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		http.Error(c.w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: line\r\n\r\n")
	rw.Flush()
	line, err := bufio.NewReader(rw).ReadString('\n')
	if err == nil {
		io.WriteString(rw, "got "+line)
		rw.Flush()
	}
}

// drop: has its effect and closes the connection without a byte. With ?times=N only the first N
// executions do; the others answer as json.
func (c *call) drop() {
	c.body()
	if n := c.number("times"); n > 0 && c.f.Effects(c.id) >= n {
		c.json()
		return
	}
	c.effect()
	if conn, _, err := http.NewResponseController(c.w).Hijack(); err == nil {
		conn.Close()
	}
}

// truncate?how=length: promises 100 bytes, writes 9 and returns. truncate?how=chunk: breaks off in
// the middle of a chunked body, which only a server on its own connection can do.
func (c *call) truncate() {
	c.body()
	c.effect()
	if c.q.Get("how") == "length" {
		c.w.Header().Set("Content-Type", "text/plain")
		c.w.Header().Set("Content-Length", "100")
		c.w.WriteHeader(http.StatusCreated)
		io.WriteString(c.w, "only this")
		return
	}
	conn, rw, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	io.WriteString(rw, "HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nonly \r\n")
	rw.Flush()
}
