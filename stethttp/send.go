package stethttp

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
)

// send sends the handler's response to the client.
func (x *run) send(o *stet.Outcome, stored bool) {
	var expires time.Time
	if stored {
		expires = x.claim.Expires()
	}
	announce(x.w.Header(), o.Response.Trailer)
	if !x.cap.unframed {
		frame(x.w.Header(), x.cap.status, x.cap.bytes(), o.Response.Trailer)
	}
	x.sendHead(x.cap.sent, x.cap.status, &expires)
	if x.cap.unframed {
		leaveOpen(x.w)
	}
	if x.cap.written > 0 {
		x.cap.unload()
	}
	setFields(x.w.Header(), o.Response.Trailer)
}

// sendHead sends status and headers of a first response. A nil expires means that the result is not
// stored.
func (x *run) sendHead(fields []stet.Field, status int, expires *time.Time) {
	h := x.w.Header()
	setResult(h, fields)
	delete(h, outcomeHeader)
	if x.cap.refused {
		x.relay(h)
	}
	delete(h, "Idempotent-Replayed") // even if the handler has such a layer of its own, this is a first response
	delete(h, "Idempotent-Replay")
	x.echo()
	if expires != nil && !expires.IsZero() {
		x.expires(*expires)
		x.g.cfg.final(h, status)
	}
	x.w.WriteHeader(status)
}

// frame sets the length of a body that net/http would otherwise send in chunks.
func frame(h http.Header, status int, body []byte, trailer []stet.Field) {
	const bufferedByServer = 2048
	if len(body) > bufferedByServer && len(trailer) == 0 && bodyAllowed(status) && h["Content-Length"] == nil {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
}

// leaveOpen sends the head at once: net/http invents a length for a short body whose head waits.
func leaveOpen(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func (x *exchange) expires(at time.Time) {
	x.lines[1] = x.g.dates.format(at)
	x.w.Header()["Idempotency-Expires"] = x.lines[1:2:2]
}

// dates remembers the last date that it formatted: keys made within one second expire in the same
// second.
type dates struct{ last atomic.Pointer[date] }

type date struct {
	unix int64
	text string
}

func (d *dates) format(at time.Time) string {
	unix := at.Unix()
	if last := d.last.Load(); last != nil && last.unix == unix {
		return last.text
	}
	text := at.UTC().Format(http.TimeFormat)
	d.last.Store(&date{unix, text})
	return text
}
