package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/framing"
	"github.com/stet-dev/stet/internal/quiet"
	"github.com/stet-dev/stet/stethttp"
)

const (
	outcomeHeader = "Stet-Outcome"
	downstreamKey = "Stet-Downstream-Key"
	downstreamID  = "Stet-Downstream-Id"
)

var errStatus = errors.New("gateway: the answer has no status of HTTP")

// received looks at an answer before it is passed on. With a claim, the guard reads Stet-Outcome; without, nobody does.
func (g *Gateway) received(res *http.Response) error {
	a := attemptOf(res.Request.Context())
	upgraded := res.StatusCode == http.StatusSwitchingProtocols
	a.watchdog.answer(upgraded)
	switch {
	case res.StatusCode < 100: // RFC 9110 section 15: net/http reads it, and panics where it is to be written
		return errStatus
	case upgraded && !strings.EqualFold(res.Header.Get("Upgrade"), res.Request.Header.Get("Upgrade")):
		return errUnasked // ReverseProxy would refuse it too, but leave the connection open
	}
	a.via[0] = via(res.ProtoMajor, res.ProtoMinor)
	appendTo(res.Header, res.Header["Via"], "Via", a.via[:])
	g.learn(a, res.Header)
	a.strip(res.Header)
	if _, typed := res.Header["Content-Type"]; !typed {
		a.w.Header()["Content-Type"] = nil // nobody guesses one then: not net/http, not the guard
	}
	if !upgraded {
		a.strip(res.Trailer)
		a.answer = answerBody{res.Body, a, res}
		res.Body = &a.answer
	}
	return nil
}

// strip takes out of a header or a trailer what is for the gateway alone. What the upstream stated of a request that passes by is
// handed on first: a route in shadow mode counts by it.
func (a *attempt) strip(h http.Header) {
	if lines, announced := h[outcomeHeader]; a.claim == nil && announced {
		a.stated = append(a.stated, lines...)
		if w, shadow := a.w.(interface{ Overhear(lines []string) }); shadow {
			w.Overhear(a.stated)
		}
		delete(h, outcomeHeader)
	}
	delete(h, downstreamKey)
	delete(h, downstreamID)
}

// learn stores by what names the systems behind the upstream know the effect, before anything can go wrong with the rest of the
// answer: a notice that knows no other then finds the record.
func (g *Gateway) learn(a *attempt, h http.Header) {
	keys, ids := h[downstreamKey], h[downstreamID]
	if a.claim == nil || keys == nil && ids == nil {
		return
	}
	head := a.claim.Head()
	key, keyOK := downstreamName(keys, head.DownstreamKey)
	id, idOK := downstreamName(ids, head.DownstreamID)
	if !keyOK || !idOK {
		g.warn(a, "the upstream's answer has a downstream name that cannot be used", errDownstream)
	}
	if key == head.DownstreamKey && id == head.DownstreamID {
		return
	}
	if err := a.claim.Downstream(a, key, id); err != nil {
		g.warn(a, "what the effect is called downstream could not be stored", err)
	}
}

var errDownstream = errors.New("it has to be one line of visible ASCII, 255 bytes at most")

// downstreamName reads the lines of a name, and reports whether they are one or none; otherwise it stays what it was.
func downstreamName(lines []string, was string) (string, bool) {
	const longest = 255
	invisible := func(c rune) bool { return c <= ' ' || c >= 0x7f }
	switch {
	case len(lines) == 0:
		return was, true
	case len(lines) > 1, lines[0] == "", len(lines[0]) > longest, strings.ContainsFunc(lines[0], invisible):
		return was, false
	}
	return lines[0], true
}

// answerBody looks at the end of an answer. The trailers are known then. And one that breaks off, short of its Content-Length, in
// the middle of a chunk, by a reset, is noticed: the claim has to know before ReverseProxy panics, as it does to let the client
// see the same.
type answerBody struct {
	io.ReadCloser
	p   *attempt
	res *http.Response
}

func (b *answerBody) Read(buf []byte) (int, error) {
	n, err := b.ReadCloser.Read(buf)
	switch {
	case err == nil:
	case err == io.EOF:
		b.p.strip(b.res.Trailer)
	case b.p.claim != nil:
		b.p.cut = err
		b.p.claim.Unknown(b.p.why("truncated-response"))
	}
	return n, err
}

// broke ends a request whose answer broke off, with the panic that ReverseProxy ends it with: the client sees a broken answer
// too. While nothing of the answer has left, it can be told instead.
func (g *Gateway) broke(w http.ResponseWriter, r *http.Request, a *attempt) {
	g.warn(a, "the upstream's answer broke off", a.cut)
	if own, ok := w.(interface{ Discard() bool }); !ok || !own.Discard() {
		panic(http.ErrAbortHandler)
	}
	a.route.guard.Refuse(w, r, a.problem(true))
}

// why names the cause of a failure: that the request's time was over, if it was.
func (a *attempt) why(otherwise string) string {
	switch cause := context.Cause(a); {
	case errors.Is(cause, stet.ErrExecutionTimeout):
		return "execution-timeout"
	case errors.Is(cause, stet.ErrLeaseLost):
		return "lease-lost"
	}
	return otherwise
}

// failed answers for an upstream that gave no answer, and states what that proves.
func (g *Gateway) failed(w http.ResponseWriter, r *http.Request, err error) {
	a := attemptOf(r.Context())
	sent := a.maySent()
	switch {
	case a.claim == nil && sent:
		stethttp.Observe(a.w, stet.Unknown, string(stethttp.UpstreamFailed))
	case a.claim == nil:
		stethttp.Observe(a.w, stet.Retryable, string(stethttp.UpstreamUnreachable))
	case sent:
		a.claim.Unknown(a.why(string(stethttp.UpstreamFailed)))
	default:
		a.claim.NotExecuted(string(stethttp.UpstreamUnreachable))
	}
	left := a.upload.broken() != nil || errors.Is(context.Cause(a), context.Canceled) // it was the client who went away
	if a.claim != nil || !left {
		g.warn(a, "no answer from the upstream", err, slog.Bool("sent", sent))
	}
	a.route.guard.Refuse(w, r, a.problem(sent))
}

// warn logs a failure of the upstream, without what net/http quotes of an answer or a request in an error.
func (g *Gateway) warn(a *attempt, what string, err error, attrs ...slog.Attr) {
	attrs = append(attrs, slog.String("route", a.route.cfg.Route), slog.String("error", quiet.Text(err.Error())))
	if a.claim != nil {
		id := a.claim.ID()
		attrs = append(attrs, slog.String("id", g.engine.Tag(id)), slog.String("scope", string(id.Scope)))
	}
	g.log.LogAttrs(a, slog.LevelWarn, what, attrs...)
}

// problem is what the client is told.
func (a *attempt) problem(sent bool) *stethttp.Problem {
	cause := context.Cause(a)
	code := stethttp.UpstreamFailed
	var timeout net.Error
	again := a.route.cfg.RetryAfterMax
	switch {
	case errors.As(a.upload.broken(), &timeout) && timeout.Timeout():
		code = stethttp.RequestTimeout
	case framing.Broken(a.upload.broken()):
		code, again = stethttp.BadFraming, 0
	case !sent:
		code, again = stethttp.UpstreamUnreachable, time.Second
	case errors.Is(cause, stet.ErrLeaseLost):
		code = stethttp.OutcomeUnknown
	case errors.Is(cause, stet.ErrExecutionTimeout), errors.Is(cause, context.DeadlineExceeded):
		code = stethttp.ExecutionTimeout
	}
	doc := stethttp.NewProblem(code, a.route.cfg.ProblemBase).After(again)
	if sent {
		doc.MayHaveRun()
	}
	if a.claim == nil {
		a.unkeyed(doc)
	}
	return doc
}

// unkeyed takes the advice about keys out of the answer to a request that runs unguarded. What may have had its effect cannot
// safely be sent again there.
func (a *attempt) unkeyed(doc *stethttp.Problem) {
	doc.KeyAction = ""
	switch {
	case doc.Code == stethttp.UpstreamUnreachable:
		doc.Detail = "The request was not sent. Send it again later."
	case doc.Code == stethttp.RequestTimeout:
		doc.Detail, doc.RetryAfter = "The body was not complete in time.", 0
	case doc.Code == stethttp.BadFraming:
		doc.Detail = "Where the request's body ends cannot be told. A part of it may have been passed on already, but never as a whole request."
	case a.once:
		doc.Detail = "The request was sent and no complete answer came back: it may have had its effect."
		doc.Retryable, doc.RetryAfter = false, 0
	default:
		doc.Detail = "The request was sent and no complete answer came back. Send it again later."
	}
}
