package stethttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/ledger"
	"github.com/stet-dev/stet/internal/stopwatch"
)

// exchange is one guarded request and its answer.
type exchange struct {
	g      *Guard
	w      http.ResponseWriter
	r      *http.Request
	next   http.Handler
	began  time.Time
	shadow bool // only find out what would be answered; w is not used, and the handler runs elsewhere

	id    stet.ID
	owner ledger.Owner // owns the bytes held for the request
	room  ledger.Hold  // for the stored answer, from before it is read until it is sent
	weak  bool
	body  requestBody
	asked bool // for the body, with 100 (Continue) if the client waits for that
	run   *run // nil before the handler runs; in shadow mode there from the start

	policy   *stet.Policy // the handler's; nil: the guard's
	result   string
	status   int
	attempt  int
	open     bool      // the handler ran without protection
	mismatch []string  // parts that differ from the key's first request; nil without a mismatch
	lines    [2]string // values of headers that the layer adds, to save allocations
}

// memory returns a buffer that counts as the scope's.
func (x *exchange) memory() ledger.Buffer { return x.g.cfg.Limits.memory.Buffer(x.owner) }

// decide asks the engine for a decision and carries it out.
func (x *exchange) decide() {
	c := &x.g.cfg
	d, err := x.g.engine.Begin(x.r.Context(), x.request())
	if refused, ok := errors.AsType[*refusal](err); ok {
		x.limited(refused)
		return
	}
	if err != nil {
		x.storeFailed(err, c.FailOpen && !x.shadow)
		return
	}
	if d.Verdict == stet.InProgress && !x.shadow && !x.metItself(&d.Record.Head) && !x.await(&d) {
		return
	}
	x.act(&d)
}

func (x *exchange) request() stet.Request {
	host := x.r.Host // in its form since it was let in
	if x.shadow {
		host = door.Host(x.r)
	}
	asked, own := door.Asked(x.r)
	policy := cmp.Or(x.policy, &x.g.cfg.Policy)
	ttl, hinted := x.ttlHint()
	if hinted || x.shadow {
		p := *policy
		if hinted {
			p.Retain = ttl
		}
		if x.shadow { // the layer ends nothing that would go on without it
			p.Execution = stet.Never
		}
		policy = &p
	}
	q := stet.Request{
		ID: x.id,
		Subject: stet.Subject{Method: x.r.Method, Path: asked, Routed: own, RawQuery: x.r.URL.RawQuery,
			Host: host, Header: x.r.Header, Body: x.body.bytes()},
		Recipe: x.g.recipe, Policy: policy,
		Route: x.g.cfg.Route, TraceID: traceID(x.r.Header), Continue: x.g.cfg.Continue, LeaveBody: true,
	}
	if !x.shadow && x.g.cfg.Limits.cfg.Load().newKeys() { // a shadow uses up no limits
		q.Admit = x.admit
	}
	return q
}

// ttlHint reads Idempotency-TTL: whole seconds, clamped to MinTTL and MaxTTL. A value that cannot
// be read is ignored.
func (x *exchange) ttlHint() (time.Duration, bool) {
	lines := x.r.Header["Idempotency-Ttl"]
	const digits = 10 // over 300 years; more would overflow
	if len(lines) != 1 || len(lines[0]) == 0 || len(lines[0]) > digits {
		return 0, false
	}
	n, err := strconv.ParseUint(lines[0], 10, 63)
	if err != nil {
		return 0, false
	}
	d := min(time.Duration(n), x.g.cfg.MaxTTL/time.Second+1) * time.Second
	return min(max(d, x.g.cfg.MinTTL), x.g.cfg.MaxTTL), true
}

// traceID returns the trace-id of a W3C traceparent header, or an empty string.
func traceID(h http.Header) string {
	lines := h["Traceparent"]
	const from, to = len("00-"), len("00-") + 32
	if len(lines) != 1 || len(lines[0]) < to || lines[0][from-1] != '-' {
		return ""
	}
	id := lines[0][from:to]
	if strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id
}

// act carries out a decision.
func (x *exchange) act(d *stet.Decision) {
	again := d.RetryAfter(x.g.cfg.RetryAfterMax)
	if d.Verdict != stet.Execute {
		x.original(&d.Record)
		if d.Record.Cause == CauseElsewhere && !x.shadow && is[ginWriter](x.w) {
			x.lastOnConnection()
			defer x.bar()
		}
	}
	switch d.Verdict {
	case stet.Execute:
		if x.attempt, x.result = d.Record.Attempt, "new"; x.attempt > 1 {
			x.result = "retry"
		}
		if x.shadow {
			x.run.claim = d.Claim
			return
		}
		x.run = newRun(x, d.Claim)
		x.run.execute()
	case stet.Replay:
		x.replay(d)
	case stet.Mismatch:
		p := x.problem(KeyReused)
		p.Mismatch, x.mismatch = d.Mismatch, append([]string{}, d.Mismatch...)
		x.reportLoop(&d.Record.Head, p)
		p.Status = cmp.Or(x.g.cfg.Status.Mismatch, p.Status)
		x.lookup(p)
	case stet.InProgress:
		p := x.inProgress(again)
		x.reportLoop(&d.Record.Head, p)
		x.lookup(p)
	case stet.Unresolved:
		x.lookup(x.problem(OutcomeUnknown).After(again))
	case stet.Gone:
		x.lookup(x.problem(ExpiredKey))
	default:
		panic("stethttp: no such verdict: " + d.Verdict.String())
	}
}

func (x *exchange) inProgress(again time.Duration) *Problem {
	p := x.problem(InProgress).After(again)
	if x.g.cfg.Waiting == Accepted {
		p.Status = http.StatusAccepted
	}
	return p
}

// lookup answers with what is known of a key in use, unless the scope asks too often.
func (x *exchange) lookup(p *Problem) {
	if !x.shadow {
		if after, ok := x.g.cfg.Limits.lookup(x.id.Scope); !ok {
			p = x.problem(RateLimited).After(x.g.cfg.soon(after))
		}
	}
	x.answer(p)
}

// storeFailed answers when nothing is known of the key: the request does not run unless the route
// fails open. Neither a record that is there and cannot be read nor one that can never be stored
// fails open.
func (x *exchange) storeFailed(err error, mayRun bool) {
	switch {
	case x.r.Context().Err() != nil && !errors.Is(err, stet.ErrUnsettled): // it waited until the client went away
		x.result, x.status = kinds[InProgress].result, 499
	case errors.Is(err, stet.ErrRefused):
		x.answer(x.unstorable())
	case mayRun && !errors.Is(err, stet.ErrCorrupt) && !errors.Is(err, stet.ErrUnread):
		x.result = kinds[StoreUnavailable].result
		x.w.Header().Set("Stet-Unprotected", "store-unavailable")
		x.unguarded()
	default:
		x.answer(x.problem(StoreUnavailable).After(retrySoon))
	}
}

func (x *exchange) problem(code Code) *Problem { return NewProblem(code, x.g.cfg.ProblemBase) }

// lastOnConnection closes the connection after the answer. An HTTP/2 connection stays open, because
// its other streams are not affected.
func (x *exchange) lastOnConnection() {
	if x.r.ProtoMajor < 2 {
		x.w.Header().Set("Connection", "close")
	}
}

func (x *exchange) refuse(code Code) { x.answer(x.problem(code)) }

// answer sends the layer's own answer. Its code decides the result that the request counts as. In
// shadow mode it is only counted.
func (x *exchange) answer(p *Problem) {
	x.result, x.status = kinds[p.Code].result, p.Status
	if !x.shadow {
		x.say(p)
	}
}

// say answers with p and leaves the result as it is.
func (x *exchange) say(p *Problem) {
	x.status = p.Status
	if !x.asked {
		endUnasked(x.w, x.r)
	}
	x.echo()
	x.g.cfg.respond(x.w, x.r, p)
}

// unguarded runs the handler without protection.
func (x *exchange) unguarded() {
	x.open = true
	r := x.body.original(x.r)
	x.next.ServeHTTP(x.w, r)
	x.r.MultipartForm = r.MultipartForm // the server removes the files of the request that it made
}

// echo repeats the key in the form in which it was understood, so that nothing unparsed gets into
// the header.
func (x *exchange) echo() {
	if x.id.Key == "" {
		return
	}
	c, h := &x.g.cfg, x.w.Header()
	x.lines[0] = spell(&c.Key, x.id.Key)
	h[defaultKeyHeader] = x.lines[0:1:1]
	if c.KeyHeader != defaultKeyHeader {
		h[c.KeyHeader] = x.lines[0:1:1]
	}
}

// spell writes a key in the form in which it was understood.
func spell(rule *stet.KeyRule, k stet.Key) string {
	if rule.Syntax == stet.Opaque {
		return string(k)
	}
	return k.Quote()
}

// end gives back what is held, unless the handler's work goes on with it, and reports the answer to
// the observer.
func (x *exchange) end() {
	if x.run == nil || !x.run.cap.goesOn {
		x.giveBack()
	}
	ev := stet.Event{Kind: stet.Answer, ID: x.id, Route: x.g.cfg.Route, Result: x.result, Status: x.status,
		Took: stopwatch.Since(x.began), WeakKey: x.weak, Attempt: x.attempt, Mismatch: x.mismatch, Unprotected: x.open}
	if x.mismatch != nil {
		ev.TraceID = traceID(x.r.Header)
	}
	x.g.engine.Observe(ev)
}

// giveBack gives back what is held.
func (x *exchange) giveBack() {
	if x.run != nil {
		x.run.cap.body.end()
		x.run.cap.close()
		x.run.claim.Close()
	}
	x.body.drop()
}

// detached returns the request's context without its end, because the record has to be settled even
// if the client is gone.
func (x *exchange) detached() context.Context { return context.WithoutCancel(x.r.Context()) }

// A gateway sends these to its upstream.
const (
	attemptHeader = "Stet-Attempt"
	fenceHeader   = "Stet-Fence"
)

// metItself reports whether the run that the request has met is the one that it is part of. It then
// came through another guard on the same record, or through this one, before, and would wait for
// itself.
func (x *exchange) metItself(h *stet.Head) bool {
	if h.State != stet.Running {
		return false
	}
	if c := stet.ClaimFrom(x.r.Context()); c != nil && c.ID() == x.id && c.Fence() == h.Fence() {
		return true
	}
	attempt, fence := x.r.Header[attemptHeader], x.r.Header[fenceHeader]
	return len(attempt) == 1 && len(fence) == 1 && attempt[0] == strconv.Itoa(h.Attempt) && fence[0] == strconv.FormatInt(h.Fence(), 10)
}

// reportLoop sets the detail of the answer and reports the mistake if the request has met itself.
func (x *exchange) reportLoop(h *stet.Head, p *Problem) {
	if x.metItself(h) {
		p.Detail = loopDetail
		x.attempt = h.Attempt
		x.miswired(causeGuard)
	}
}

// A client cannot correct this, but its operator can.
const loopDetail = "The request has met itself: it came through two guards on one record, or through one guard twice, and the first one let it run. " +
	"Guard it once, or give the inner guard another scope or another store."
