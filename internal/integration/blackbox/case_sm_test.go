package blackbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"
)

// Streaming and protocol.
var casesSM = []Case{
	{ID: "SM-01", Run: func(c *C) {
		n := c.Dial()
		n.Write("%s", c.head("POST /fx/chunked?hold HTTP/1.1", "Idempotency-Key: early", "Content-Length: 7")+`{"a":1}`)
		c.Entered(1)
		n.silent(200 * time.Millisecond) // it flushed, and its result is not stored
		c.Release(1)
		first := n.Read().First(201).Says("piece 0\npiece 1\npiece 2\n")
		c.POST("/fx/chunked?hold", key("early")).Replays(first) // at once: stored before it was sent
		c.Effects(1)
	}},
	{ID: "SM-02", Run: func(c *C) {
		first, _ := c.Twice(201, "/fx/controller")
		first.Says("read:<nil> write:<nil> after")
		c.Effects(1)
	}},
	{ID: "SM-03", Run: func(c *C) {
		n := c.Dial()
		n.Write("%s", c.head("POST /fx/sse?hold HTTP/1.1", `Idempotency-Key: "live"`, "Content-Length: 7")+`{"a":1}`)
		head, err := block(n.in)
		if err != nil || !strings.Contains(head, " 200 ") || strings.Contains(head, replayed) {
			c.Fatalf("%q, %v", head, err)
		}
		n.until("data: 0") // while the handler is held
		retry := func() *Answer { return c.POST("/fx/sse?hold", key(`"live"`)) }
		retry().Problem("in-progress")
		c.Release(1)
		n.until("data: 2")
		c.Left(1)
		a := c.settledOrUnknown(retry)
		if d := a.Problem("result-not-retained"); d.OriginalStatus != 200 {
			a.fail("original_status has to be 200")
		}
		c.Effects(1)
	}},
	{ID: "SM-03-published", Run: func(c *C) { // an answer has left: no other may follow it, whatever the handler states
		path := "/fx/sse?state=not-executed"
		c.POST(path).First(200).Lacks(OutcomeHeader)
		c.Left(1)
		c.settledOrUnknown(func() *Answer { return c.POST(path) }).Problem("outcome-unknown")
		c.Effects(1)
	}},
	{ID: "SM-04", Run: func(c *C) {
		n := c.Dial()
		n.Write("%s", c.head("GET /fx/upgrade HTTP/1.1", `Idempotency-Key: "up"`, "Connection: Upgrade", "Upgrade: line"))
		if a := n.Read(); a.Status != http.StatusSwitchingProtocols {
			a.fail("want 101")
		}
		n.Write("hello\n")
		n.until("got hello")
		c.Records(0)
		c.Effects(1)
		for _, offer := range []string{"line", "websocket", "h2c"} { // C01: what has an outcome is guarded, whatever else it asks for
			d := c.Named(offer)
			ask := func() *Answer {
				n := d.Dial()
				n.Write("%s", d.head("POST /fx/json HTTP/1.1", `Idempotency-Key: "up"`, "Connection: Upgrade", "Upgrade: "+offer, "Content-Length: 7")+`{"a":1}`)
				return n.Read()
			}
			first := ask().First(201)
			ask().Replays(first)
			d.Effects(1)
		}
	}},
	{ID: "SM-05", Run: func(c *C) {
		for name, line := range map[string]string{"invalid": `Idempotency-Key: "a`, "empty": "Idempotency-Key:", "missing": "X-Other: 1"} {
			d := c.Named(name)
			n := d.Dial()
			n.Write("%s", d.head("POST /fx/json HTTP/1.1", line, "Content-Length: 7", "Expect: 100-continue"))
			a := n.ReadSoon() // the body is never asked for
			if a.Status != 400 {
				a.fail("want the final 400 at once")
			}
			d.Seen(0)
			d.Records(0)
		}
	}},
	{ID: "SM-06", Run: func(c *C) {
		ask := func() *Answer {
			n := c.Dial()
			n.Write("%s", c.head("POST /fx/json HTTP/1.1", `Idempotency-Key: "go"`, "Content-Length: 7", "Expect: 100-continue"))
			if a := n.Read(); a.Status != http.StatusContinue {
				a.fail("want 100")
			}
			n.Write(`{"a":1}`)
			return n.Read()
		}
		first := ask().First(201)
		ask().Replays(first)
		c.Effects(1)
	}},
	{ID: "SM-07", Run: func(c *C) {
		first := c.POST("/fx/seen", chunked, trailing("X-T", "one")).First(201)
		if seen := first.seen(); seen.Trailer.Get("X-T") != "one" || seen.Length != len(`{"a":1}`) {
			first.fail("want the request's body and trailer")
		}
		first.Retry(trailing("X-T", "two")).Replays(first)
		c.Effects(1)
	}},
	{ID: "SM-08", Policy: "h2c: true", Run: func(c *C) {
		first := c.POST("/fx/early-hints", h2).First(201)
		first.Retry().Replays(first)
		c.Effects(1)
		old := c.Named("1.0")
		ask := func() *Answer {
			n := old.Dial()
			n.Write("%s", old.head("POST /fx/early-hints HTTP/1.0", `Idempotency-Key: "old"`, "Content-Length: 7")+`{"a":1}`)
			return n.Read() // no 1xx for HTTP/1.0: RFC 9110 section 15.2
		}
		first = ask().First(201)
		ask().Replays(first)
		old.Effects(1)
	}},
	{ID: "SM-09", Run: func(c *C) {
		text := strings.Repeat(" ", 5000) + `{"b" : 1}`
		sum := sha256.Sum256([]byte(text))
		for name, framing := range map[string][]option{"length": nil, "chunked": {chunked}} {
			d := c.Named(name)
			first := d.POST("/fx/seen", append(opts(body(text)), framing...)...).First(201)
			seen := first.seen()
			if seen.NilBody || seen.Length != len(text) || seen.SHA256 != hex.EncodeToString(sum[:]) {
				first.fail("want the request's own bytes")
			}
			if name == "length" && seen.ContentLength != int64(len(text)) {
				first.fail("want Content-Length %d", len(text))
			}
		}
		d := c.Named("empty")
		if seen := d.POST("/fx/seen", body("")).First(201).seen(); seen.NilBody || seen.Length != 0 {
			d.Fatalf("%+v", seen)
		}
		c.Named("unread").Twice(201, "/fx/unread")
	}},
}

// seen reads the description of /fx/seen.
func (a *Answer) seen() (s Seen) {
	a.c.Helper()
	if err := json.NewDecoder(bytes.NewReader(a.Body)).Decode(&s); err != nil {
		a.fail("no description: %v", err)
	}
	return s
}

// silent demands that nothing arrives for a while.
func (n *Conn) silent(d time.Duration) {
	n.c.Helper()
	if err := n.SetReadDeadline(time.Now().Add(d)); err != nil {
		n.c.Fatal(err)
	}
	if b, err := n.in.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		n.c.Fatalf("something arrived: %q, %v", b, err)
	}
	if err := n.SetReadDeadline(time.Now().Add(patience)); err != nil {
		n.c.Fatal(err)
	}
}

// until reads until text has arrived.
func (n *Conn) until(text string) {
	n.c.Helper()
	var got bytes.Buffer
	for !strings.Contains(got.String(), text) {
		b, err := n.in.ReadByte()
		if err != nil {
			n.c.Fatalf("%q never arrived: %q, %v", text, got.String(), err)
		}
		got.WriteByte(b)
	}
}
