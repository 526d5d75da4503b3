package stethttp

import (
	"errors"
	"net/http"
	"slices"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/framing"
	"github.com/stet-dev/stet/internal/ledger"
)

// replay answers with the stored result. There is room for it before it is read, and until it is
// sent: the answers to clients that read slowly would pile up otherwise.
func (x *exchange) replay(d *stet.Decision) {
	x.result, x.status = "replay", d.Record.Status
	if x.shadow {
		return
	}
	if x.run != nil { // a handler that still reads the body, although its record is another's by now, gets an error
		x.run.cap.body.end()
	}
	x.body.drop() // the fingerprint is taken, and the memory may serve another request
	x.room = x.g.cfg.Limits.memory.Hold(x.owner)
	defer x.room.Free()
	if d.Record.Left > 0 {
		whole, err := x.g.engine.ReadBody(x.r.Context(), *d, x)
		switch {
		case err == errNoRoom:
			x.noRoom()
			return
		case err != nil:
			x.storeFailed(err, false)
			return
		case whole.Verdict != stet.Replay: // the record has changed since; x.body is gone, and nothing runs
			x.act(&whole)
			return
		}
		d, x.status = &whole, whole.Record.Status
	}
	x.resend(&d.Record)
}

// Reserve implements [stet.Room].
func (x *exchange) Reserve(bytes int64) error {
	if !x.room.Raise(bytes, bytes <= ledger.Small) {
		return errNoRoom
	}
	return nil
}

var errNoRoom = errors.New("stethttp: too many bytes are held in memory")

// noRoom answers in place of a stored result.
func (x *exchange) noRoom() {
	p := x.problem(RateLimited).After(retrySoon)
	p.Detail = "The stored answer cannot be sent at the moment: too many bytes of answers are on their way. Nothing was run again; " +
		"ask again later with the same key."
	x.result = kinds[p.Code].result
	x.instead(p)
}

// resend sends a stored result.
func (x *exchange) resend(r *stet.Record) {
	if r.Kept == stet.KeptStatus || r.Response == nil || r.Response.Status < 200 || r.Response.Status > 999 { // net/http would panic on such a status
		p := x.problem(ResultNotRetained)
		p.OriginalStatus = r.Status
		x.original(r)
		x.say(p)
		return
	}
	body := r.Response.Body
	if !bodyAllowed(r.Response.Status) {
		body = nil
	}
	if x.Reserve(int64(len(body))) != nil {
		x.noRoom()
		return
	}
	h := x.w.Header()
	setResult(h, r.Response.Header)
	for _, f := range r.Response.Header { // a record stored under other rules, or by hand, is filtered again
		if neverReplayed[f.Name] || framing.HopByHop(f.Name) {
			delete(h, f.Name)
		}
	}
	x.mark(h, r)
	x.echo()
	x.expires(r.DueAt)
	if r.Kept == stet.KeptHeader {
		h["Stet-Body"] = []string{"omitted"}
	}
	announce(h, r.Response.Trailer)
	if !r.Response.Unframed {
		frame(h, r.Response.Status, r.Response.Body, r.Response.Trailer)
	}
	x.w.WriteHeader(r.Response.Status)
	if r.Response.Unframed {
		leaveOpen(x.w)
	}
	if len(body) > 0 {
		_, _ = x.w.Write(body)
	}
	setFields(h, r.Response.Trailer)
}

// mark sets the headers that mark a replay.
func (x *exchange) mark(h http.Header, r *stet.Record) {
	m := x.g.cfg.Replay.Markers
	if m == BothMarkers || m == ReplayedOnly {
		h["Idempotent-Replayed"] = isTrue
	}
	if m == BothMarkers || m == ReplayOnly {
		h["Idempotent-Replay"] = isTrue
	}
	if r.Reconciled {
		h["Stet-Reconciled"] = isTrue
	}
	if x.g.cfg.requestIDs() {
		delete(h, requestID)
		delete(h, originalRequest)
		delete(h, shouldRetry) // the handler's advice was for the first request
		x.original(r)
		x.g.cfg.final(h, r.Response.Status)
		identify(h)
	}
}

var isTrue = []string{"true"}

// announce names the trailers, so that the body is framed in a way that can carry them.
func announce(h http.Header, trailer []stet.Field) {
	if len(trailer) == 0 {
		return
	}
	var names []string
	for _, f := range trailer {
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	h["Trailer"] = names
}
