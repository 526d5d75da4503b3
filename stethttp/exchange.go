package stethttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/framing"
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
	shadow bool // it is only found out what would be answered: w is not used, and the handler runs elsewhere

	id    stet.ID
	owner ledger.Owner // of the bytes held for it
	body  requestBody
	claim *stet.Claim
	cap   capture
	tx    stet.Transaction // of [Atomic], until it has ended; guarded by cap.mu

	back     atomic.Bool  // the handler has returned or panicked: it works no more
	policy   *stet.Policy // of the handler; nil: the guard's
	result   string
	status   int
	weak     bool
	attempt  int
	mismatch []string  // of a key that was used for another request; not nil then
	lines    [2]string // of the headers the layer adds, so that they need no memory of their own
}

// serve answers in the order of checks that is published: the first failure answers, and nothing is stored before all of
// them are passed (I7).
func (x *exchange) serve(lines []string) {
	c := &x.g.cfg
	scope, err := x.g.scope(x.r)
	if err != nil || scope == "" || scope == stet.OwnScope { // what Stet keeps for itself is nobody's
		p := x.problem(Unauthenticated)
		p.challenge = challenge(err)
		x.unauthenticated(p)
		return
	}
	if most := c.Limits.cfg.Load().MaxScopeBytes; len(scope) > most { // it would be stored with every record
		p := x.problem(Unauthenticated)
		p.Detail = "The request says whose it is in more than " + strconv.Itoa(most) + " bytes. Nothing was looked up."
		x.unauthenticated(p)
		return
	}
	if len(lines) == 0 {
		x.refuse(MissingKey)
		return
	}
	key, err := c.Key.Parse(lines)
	if err != nil {
		x.invalidKey(err)
		return
	}
	x.id, x.weak = stet.ID{Scope: scope, Key: key}, key.Weak()
	x.owner = c.Limits.memory.Owner(string(scope))
	switch {
	case c.EarlyData && x.r.Header.Get("Early-Data") == "1":
		x.refuse(TooEarly)
	case c.MaxRequestAge > 0 && tooOld(x.r.Header, c.MaxRequestAge):
		x.refuse(RequestTooOld)
	case !x.shadow && x.readBody():
		x.decide()
	}
}

func (x *exchange) invalidKey(err error) {
	p := x.problem(InvalidKey)
	if ke, ok := errors.AsType[*stet.KeyError](err); ok {
		p.Detail = "The Idempotency-Key cannot be used: " + ke.Reason + "."
	}
	if s := x.g.cfg.Status.InvalidKey; s != 0 {
		p.Status = s
	}
	x.answer(p)
}

// tooOld reads Idempotency-First-Sent. A client whose clock is ahead is let through: only age is judged.
func tooOld(h http.Header, limit time.Duration) bool {
	sent, err := http.ParseTime(h.Get("Idempotency-First-Sent"))
	return err != nil || time.Since(sent) > limit
}

// memory returns a buffer for bytes of the exchange.
func (x *exchange) memory() ledger.Buffer { return x.g.cfg.Limits.memory.Buffer(x.owner) }

func (x *exchange) readBody() bool {
	c := &x.g.cfg
	x.body.buf = x.memory()
	err := x.body.read(x.w, x.r, c.MaxBody, c.BodyTimeout)
	if err == nil {
		return true
	}
	x.body.drop()
	var timeout interface{ Timeout() bool }
	tooLarge := new(http.MaxBytesError)
	switch {
	case errors.Is(err, ledger.ErrTooLong), errors.As(err, &tooLarge):
		x.refuse(PayloadTooLarge)
	case errors.Is(err, ledger.ErrNoRoom):
		x.answer(x.problem(RateLimited).After(retrySoon))
	case errors.As(err, &timeout) && timeout.Timeout():
		x.lastOnConnection() // the rest of the body would be taken for a request
		x.refuse(RequestTimeout)
	case framing.Broken(err):
		x.refuse(BadFraming)
	default: // the client went away: there is nobody to tell
		x.lastOnConnection()
		x.refuse(RequestTimeout)
	}
	return false
}

// decide asks the engine and acts on the verdict.
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
	policy := cmp.Or(x.policy, &x.g.cfg.Policy)
	ttl, hinted := x.ttlHint()
	if hinted || x.shadow {
		p := *policy
		if hinted {
			p.Retain = ttl
		}
		if x.shadow { // nothing is cut short that would have run without the layer
			p.Execution = stet.Never
		}
		policy = &p
	}
	q := stet.Request{
		ID: x.id,
		Subject: stet.Subject{Method: x.r.Method, Path: x.r.URL.EscapedPath(), RawQuery: x.r.URL.RawQuery,
			Header: x.r.Header, Body: x.body.bytes()},
		Recipe: x.g.recipe, Policy: policy,
		Route: x.g.cfg.Route, TraceID: traceID(x.r.Header),
	}
	if !x.shadow && x.g.cfg.Limits.cfg.Load().newKeys() { // what would have been answered uses up nothing
		q.Admit = x.admit
	}
	return q
}

// ttlHint reads Idempotency-TTL: whole seconds, clamped. Nonsense is ignored.
func (x *exchange) ttlHint() (time.Duration, bool) {
	lines := x.r.Header["Idempotency-Ttl"]
	const digits = 10 // over 300 years: more is nonsense, and would overflow
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

// traceID is the trace-id of a W3C traceparent header.
func traceID(h http.Header) string {
	lines := h["Traceparent"]
	const from, to = len("00-"), len("00-") + 32
	if len(lines) != 1 || len(lines[0]) < to || lines[0][from-1] != '-' {
		return ""
	}
	for _, c := range []byte(lines[0][from:to]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	return lines[0][from:to]
}

// act answers by the verdict.
func (x *exchange) act(d *stet.Decision) {
	again := d.RetryAfter(x.g.cfg.RetryAfterMax)
	if d.Verdict != stet.Execute {
		x.original(&d.Record)
		if d.Record.Cause == CauseElsewhere && !x.shadow && goesOn(x.w) {
			x.lastOnConnection()
			defer x.bar()
		}
	}
	switch d.Verdict {
	case stet.Execute:
		x.granted(d.Claim)
		if !x.shadow {
			x.execute()
		}
	case stet.Replay:
		x.replay(&d.Record)
	case stet.Mismatch:
		p := x.problem(KeyReused)
		p.Mismatch, x.mismatch = d.Mismatch, append([]string{}, d.Mismatch...)
		x.reportLoop(&d.Record.Head, p)
		if s := x.g.cfg.Status.Mismatch; s != 0 {
			p.Status = s
		}
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

// lookup answers with what a key in use says, unless the client asks too often.
func (x *exchange) lookup(p *Problem) {
	if !x.shadow {
		if after, ok := x.g.cfg.Limits.lookup(x.id.Scope); !ok {
			p = x.problem(RateLimited).After(x.soon(after))
		}
	}
	x.answer(p)
}

// storeFailed: nothing is known of the key, so nothing runs, unless the route prefers to. A record that is there but cannot
// be read is no reason to run in any case.
func (x *exchange) storeFailed(err error, mayRun bool) {
	switch {
	case x.r.Context().Err() != nil && !errors.Is(err, stet.ErrUnsettled): // it waited, and the client went away
		x.result, x.status = kinds[InProgress].result, 499
	case mayRun && !errors.Is(err, stet.ErrCorrupt):
		x.result = kinds[StoreUnavailable].result
		x.w.Header().Set("Stet-Unprotected", "store-unavailable")
		x.unguarded()
	default:
		x.answer(x.problem(StoreUnavailable).After(retrySoon))
	}
}

func (x *exchange) problem(code Code) *Problem { return NewProblem(code, x.g.cfg.ProblemBase) }

// lastOnConnection closes the connection after the answer. One of HTTP/2 has other streams, which are none the worse.
func (x *exchange) lastOnConnection() {
	if x.r.ProtoMajor < 2 {
		x.w.Header().Set("Connection", "close")
	}
}

func (x *exchange) refuse(code Code) { x.answer(x.problem(code)) }

// answer is the layer's own answer. In shadow mode it is only counted.
func (x *exchange) answer(p *Problem) {
	x.result, x.status = kinds[p.Code].result, p.Status
	if x.shadow {
		return
	}
	x.echo()
	x.g.cfg.respond(x.w, x.r, p)
}

// unguarded runs the handler as if there were no layer.
func (x *exchange) unguarded() {
	r := x.body.original(x.r)
	x.next.ServeHTTP(x.w, r)
	x.r.MultipartForm = r.MultipartForm // the server removes its files by its own request
}

// echo repeats the key: always as it was understood, so that nothing of the request gets into the header unparsed.
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

// spell writes a key as it was understood.
func spell(rule *stet.KeyRule, k stet.Key) string {
	if rule.Syntax == stet.Opaque {
		return string(k)
	}
	return k.Quote()
}

// end gives back what was held, and tells the observer.
func (x *exchange) end() {
	x.body.drop()
	if x.claim != nil {
		x.cap.close()
	}
	ev := stet.Event{Kind: stet.Answer, ID: x.id, Route: x.g.cfg.Route, Result: x.result, Status: x.status,
		Took: stopwatch.Since(x.began), WeakKey: x.weak, Attempt: x.attempt, Mismatch: x.mismatch}
	if x.shadow {
		ev.Result, ev.Cause = "bypass", x.result
	}
	x.g.engine.Observe(ev)
}

// releases reports whether a status is the handler's statement that nothing happened.
func (g *Guard) releases(status int) bool { return slices.Contains(g.cfg.NoStoreStatus, status) }

// detached is the request's context without its end: what is owed to the record does not stop with the client.
func (x *exchange) detached() context.Context { return context.WithoutCancel(x.r.Context()) }
