package stethttp

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/framing"
)

// execute runs the handler and stores the outcome before the client learns of it (I2).
func (x *exchange) execute() {
	x.cap = &capture{x: x, w: x.w, declared: -1, buf: x.memory(), header: make(http.Header)}
	r := x.r.WithContext(x.claim.Hold(x.r.Context(), x))
	if x.body.here {
		x.cap.body.replace(r, x.body.bytes())
	}
	returned := false
	defer func() {
		if !returned { // a panic, http.ErrAbortHandler or Goexit, which goes on after this
			x.crashed()
		}
	}()
	x.next.ServeHTTP(x.cap, r)
	returned = true
	if x.cap.goesOn {
		return
	}
	x.r.MultipartForm = r.MultipartForm // the server removes its files by its own request
	x.finish()
}

// Lost implements [stet.Lost]: the run's time is over, or its lease is lost. The client is told so.
// The outcome is unknown until the handler returns with it, if it ever does.
func (x *exchange) Lost(cause error) {
	if p := x.cap.phase(); p == publishing || p == streaming { // a client that reads slowly may keep the lock, and needs no answer
		x.lapse(cause)
		return
	}
	x.cap.mu.Lock()
	defer x.cap.mu.Unlock()
	x.cap.awaitLook()
	x.timeOut(cause)
}

// timeOut answers for a run whose context has ended, unless the client already has an answer. The
// caller holds the lock of x.cap.
func (x *exchange) timeOut(cause error) {
	if p := x.cap.phase(); p.told() || p.over() {
		return
	}
	how := answer
	_, atomic := x.next.(*atomicHandler) // whose transaction decides when the handler returns, or the next holder if this process dies
	if x.cap.tx == nil && !atomic {
		if how = lapse; x.claim.Stated() == stet.Unknown {
			how = doubt
		}
		if x.cap.due == nil {
			x.lapse(cause)
		}
	}
	if x.cap.saying != nil { // the client is answered when it has taken that
		x.cap.due = cause
		return
	}
	if !x.cap.move(how) {
		return
	}
	p := x.problem(ExecutionTimeout)
	if !errors.Is(cause, stet.ErrExecutionTimeout) {
		p = x.problem(OutcomeUnknown).MayHaveRun()
	}
	if !x.cap.goesOn {
		x.lastOnConnection() // the handler still occupies it
	}
	x.say(p.After(x.g.cfg.RetryAfterMax))
	_ = http.NewResponseController(x.w).Flush()
}

// lapse settles a run as unknown, unless the handler has stated its outcome.
func (x *exchange) lapse(cause error) {
	switch {
	case !x.cap.back.Load():
		x.claim.Overdue(causeOf(cause))
	case x.claim.Stated() != stet.Unknown:
		x.claim.Unknown(causeOf(cause))
	}
	_ = x.claim.Settle(x.r.Context(), stet.Outcome{})
}

func causeOf(cause error) string {
	switch {
	case errors.Is(cause, stet.ErrExecutionTimeout):
		return "execution-timeout"
	case errors.Is(cause, stet.ErrAbandoned):
		return stet.CauseAbandoned
	}
	return "lease-lost"
}

// crashed settles a run that did not return. The panic goes on.
func (x *exchange) crashed() {
	x.cap.back.Store(true)
	x.cap.lock()
	defer x.cap.mu.Unlock()
	x.cap.endLook()
	x.cap.buf.Leave()
	defer x.cap.release(nil)
	if x.cap.phase().told() {
		x.claim.Returned(x.r.Context())
		return
	}
	x.status = http.StatusInternalServerError
	o := x.panicked()
	if !x.cap.phase().collects() && x.claim.Stated() != stet.Unknown { // the client has received something
		x.claim.Unknown("panic")
	}
	_ = x.claim.Settle(x.r.Context(), o)
}

// panicked makes the statement that the policy has for a panic, and the result if a panic is one.
func (x *exchange) panicked() (o stet.Outcome) {
	if s := x.claim.Stated(); s == stet.Retryable || s == stet.Unknown { // the handler has stated it before
		return o
	}
	switch x.g.cfg.OnPanic {
	case PanicUnknown:
		x.claim.Unknown("panic")
	case PanicRelease:
		x.claim.NotExecuted("panic")
	case PanicReplay:
		x.claim.Completed()
		o.Response = stet.Response{Status: http.StatusInternalServerError,
			Header: []stet.Field{{Name: "Content-Type", Value: "text/plain; charset=utf-8"}}, Body: []byte("Internal Server Error\n")}
	}
	return o
}

// finish settles a run that returned, and sends its response.
func (x *exchange) finish() {
	c := x.cap
	c.back.Store(true)
	c.lock()
	defer c.mu.Unlock()
	c.endLook()
	explicit := c.status != 0
	if cause := x.claim.Ended(); cause != nil && x.obeyed(explicit) {
		x.timeOut(cause)
	}
	silence := x.silence()
	if silence == empty {
		c.complete()
	}
	x.state()
	if c.phase().told() {
		x.finishAnswered(explicit)
		return
	}
	if silence != empty {
		x.answeredElsewhere()
	}
	x.status = c.status
	o := x.outcome()
	err := x.settle(&o)
	defer func() { c.release(err) }()
	switch {
	case silence == elsewhere: // the client has an answer
	case c.phase() == streaming:
		c.endStream(o.Response.Trailer)
	case c.phase() != holding:
	case errors.Is(err, stet.ErrFenced):
		x.fencedOff()
		return
	case errors.Is(err, errNotCommitted), errors.Is(err, errTooMuch):
		x.uncommitted(err)
		return
	case err != nil && x.g.cfg.Withhold, errors.Is(err, stet.ErrUnsettled), errors.Is(err, stet.ErrTxEnded), silence == unsaid:
		x.unknown()
		return
	default:
		x.send(&o, err == nil)
		if !explicit {
			c.move(fallSilent)
		}
	}
	if c.truncated() && c.phase() != hijacked {
		panic(http.ErrAbortHandler) // as in net/http: the client must see that the response is incomplete
	}
}

// obeyed reports whether a handler whose context had ended before it returned has left no answer,
// because of that. A refusal that states that nothing happened is one: a proxy knows what it sent.
func (x *exchange) obeyed(explicit bool) bool {
	switch {
	case !explicit:
		return true
	case x.cap.refused:
		return x.claim.Stated() != stet.Retryable
	default:
		return failure(x.cap.status) && !x.lasts()
	}
}

// state derives a statement from the handler's answer if the handler made none.
func (x *exchange) state() {
	c := x.cap
	lines := c.outcomeLines()
	if c.refused && c.phase().told() { // a refusal after that is no late outcome
		lines = nil
	}
	switch {
	case c.phase() == hijacked:
		x.claim.Unknown("hijacked")
	case c.truncated():
		x.claim.Unknown("truncated-response")
	case x.claim.Stated() != 0, x.stated(lines):
		x.vouched = x.claim.Stated() == stet.Retryable
	case c.phase().timedOut() && (!c.goesOn || c.refused): // after the time is over, a status alone proves nothing
	default:
		said := x.says()
		if said == 0 && c.phase() != holding && x.lasts() && x.claim.Ended() != nil { // the record says unknown
			said = stet.Completed
		}
		cause := causeStatus
		if c.gaveUp {
			said, cause = stet.Unknown, causeTimeout
			x.miswired(causeTimeout)
		}
		x.declare(said, cause)
	}
	if x.claim.Stated() == stet.Retryable && x.redirects() { // the request has to find the key free there
		x.claim.NotHere(causeElsewhere)
	}
}

// says returns what the status of the answer means for the outcome: nothing happened (Retryable),
// it may have happened (Unknown), or 0 if the answer is the result.
func (x *exchange) says() stet.State {
	status := x.cap.status
	said, grpc := x.cap.grpc()
	switch means, named := x.g.cfg.StatusOutcome[status]; {
	case x.g.cfg.TrustHeader != "" && len(valuesOf(x.cap.sent, x.g.cfg.TrustHeader)) == 0:
		return stet.Unknown
	case grpc:
		return said
	case named && means == stet.Completed:
		return 0
	case named:
		return means
	case x.redirects() && x.cap.phase() == holding, slices.Contains(x.g.cfg.NoStoreStatus, status), status >= 500 && x.g.cfg.On5xx == ReleaseFailure:
		return stet.Retryable
	case status >= 500 && x.g.cfg.On5xx == UnknownFailure:
		return stet.Unknown
	}
	return 0
}

// redirects reports whether the answer sends the client elsewhere with the same request, which has
// not been carried out here (RFC 9110 sections 15.4.8 and 15.4.9). Without a Location a client
// cannot follow: some APIs say by such a 308 that they have a part of an upload.
func (x *exchange) redirects() bool {
	switch x.cap.status {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return len(valuesOf(x.cap.sent, "Location")) > 0
	}
	return false
}

// finishAnswered settles a run whose handler returned after the client was answered without it. A
// statement since then, or an answer that the handler gave on purpose, is the outcome, as long as
// the record is still the run's. A failure, a refusal or silence after the end of its context says
// nothing. What work that went on has to say is stated before: the end of the context has not
// reached it.
func (x *exchange) finishAnswered(explicit bool) {
	c := x.cap
	var err error
	defer func() { c.release(err) }()
	defer x.claim.Returned(x.r.Context()) // does nothing if the outcome is settled below
	if x.cap.tx != nil {
		x.rollBack()
	}
	if c.phase().timedOut() {
		switch x.claim.Stated() {
		case stet.Completed, stet.Retryable:
		case 0:
			if !explicit || c.phase() == doubted || c.refused || failure(c.status) || x.says() != 0 {
				return
			}
			x.claim.Completed()
		default:
			return
		}
	}
	err = x.claim.Settle(x.r.Context(), x.outcome())
}

// failure reports whether a status says nothing once the handler's context has ended. Package
// connect uses 499 for a cancelled context.
func failure(status int) bool { return status >= 500 || status == 499 }

// outcome returns what is stored of the response.
func (x *exchange) outcome() stet.Outcome {
	c := x.cap
	hop := framing.Listed(c.header["Connection"])
	o := stet.Outcome{Size: c.written, Response: stet.Response{Status: c.status, Body: c.bytes(), Trailer: c.trailers(), Unframed: c.unframed}}
	kept := x.g.storables(c.sent, &hop)
	o.Response.Header = kept
	switch {
	case c.phase() == streaming && !c.oversize, headerBytes(kept)+headerBytes(o.Response.Trailer) > x.g.cfg.MaxHeader:
		o.Kept = stet.KeptStatus
	case c.oversize && x.g.cfg.OnOversize == OmitBody:
		o.Kept = stet.KeptHeader
	case c.oversize:
		o.Kept = stet.KeptStatus
	}
	return o
}

// fencedOff answers from the record after another holder has taken it over: a replay if it is
// completed. It is running if the handler has suspended it for a later resume, or if it was taken
// over by another run.
func (x *exchange) fencedOff() {
	x.cap.move(answer)
	r, err := x.g.engine.Get(stet.WithMaxBody(x.r.Context(), stet.SmallBody), x.id)
	switch {
	case err == nil && r.State == stet.Completed:
		x.replay(&stet.Decision{Verdict: stet.Replay, Record: r})
	case err == nil && r.State == stet.Running:
		d := stet.Decision{Verdict: stet.InProgress, Record: r}
		x.instead(x.inProgress(d.RetryAfter(x.g.cfg.RetryAfterMax)))
	default:
		x.unknown()
	}
}

func (x *exchange) unknown() { x.instead(x.problem(OutcomeUnknown).After(x.g.cfg.RetryAfterMax)) }

// instead answers a request that ran with p, in place of what its handler wrote.
func (x *exchange) instead(p *Problem) { x.say(p.MayHaveRun()) }

// send sends the handler's response to the client.
func (x *exchange) send(o *stet.Outcome, stored bool) {
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
func (x *exchange) sendHead(fields []stet.Field, status int, expires *time.Time) {
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
		x.final(h, status)
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
