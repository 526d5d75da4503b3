package stethttp

import (
	"errors"
	"net/http"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/framing"
)

// run is one execution of a request: its handler, what that answers and states, and the outcome.
type run struct {
	*exchange
	claim   *stet.Claim // in shadow mode nil if the request would not have run
	cap     *capture
	vouched bool // the handler itself has stated that nothing happened
}

func newRun(x *exchange, claim *stet.Claim) *run {
	both := new(struct { // one allocation
		run
		capture
	})
	both.run = run{exchange: x, claim: claim, cap: &both.capture}
	both.capture = capture{x: &both.run, w: x.w, declared: -1, buf: x.memory(), header: make(http.Header)}
	return &both.run
}

// execute runs the handler and stores the outcome before the client learns of it (I2).
func (x *run) execute() {
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
func (x *run) Lost(cause error) {
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
func (x *run) timeOut(cause error) {
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
func (x *run) lapse(cause error) {
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
func (x *run) crashed() {
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
func (x *run) panicked() (o stet.Outcome) {
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
func (x *run) finish() {
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

// finishAnswered settles a run whose handler returned after the client was answered without it. A
// statement since then, or an answer that the handler gave on purpose, is the outcome, as long as
// the record is still the run's. A failure, a refusal or silence after the end of its context says
// nothing. What work that went on has to say is stated before: the end of the context has not
// reached it.
func (x *run) finishAnswered(explicit bool) {
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

// outcome returns what is stored of the response.
func (x *run) outcome() stet.Outcome {
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
func (x *run) fencedOff() {
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

func (x *run) unknown() { x.instead(x.problem(OutcomeUnknown).After(x.g.cfg.RetryAfterMax)) }

// instead answers a request that ran with p, in place of what its handler wrote.
func (x *exchange) instead(p *Problem) { x.say(p.MayHaveRun()) }
