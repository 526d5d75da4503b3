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
	"github.com/stet-dev/stet/stethttp"
)

const outcomeHeader = "Stet-Outcome"

var errStatus = errors.New("gateway: the answer has no status of HTTP")

// received looks at an answer before it is passed on. With a claim, the guard reads Stet-Outcome; without, nobody does.
func (g *Gateway) received(res *http.Response) error {
	p := passageOf(res.Request.Context())
	switch {
	case res.StatusCode < 100: // RFC 9110 section 15: net/http reads it, and panics where it is to be written
		return errStatus
	case res.StatusCode == http.StatusSwitchingProtocols && !strings.EqualFold(res.Header.Get("Upgrade"), res.Request.Header.Get("Upgrade")):
		return errUnasked // ReverseProxy would refuse it too, but leave the connection open
	}
	if p.claim == nil {
		p.overheard(res.Header[outcomeHeader])
		delete(res.Header, outcomeHeader)
		return nil
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		p.answer = answerBody{res.Body, p}
		res.Body = &p.answer
	}
	return nil
}

// overheard hands on what the upstream stated of a request that runs unguarded: a route in shadow mode counts by it.
func (p *passage) overheard(stated []string) {
	if len(stated) == 0 {
		return
	}
	switch stated[0] {
	case "not-executed":
		stethttp.Observe(p.w, stet.Retryable, "stated")
	case "unknown":
		stethttp.Observe(p.w, stet.Unknown, "stated")
	case "completed":
		stethttp.Observe(p.w, stet.Completed, "")
	}
}

// answerBody notices an answer that breaks off: short of its Content-Length, in the middle of a chunk, by a reset. The claim
// has to know before ReverseProxy panics, as it does to let the client see the same.
type answerBody struct {
	io.ReadCloser
	p *passage
}

func (b *answerBody) Read(buf []byte) (int, error) {
	n, err := b.ReadCloser.Read(buf)
	if err != nil && err != io.EOF {
		b.p.cut = err
		b.p.claim.Unknown(b.p.why("truncated-response"))
	}
	return n, err
}

// broke ends a request whose answer broke off, with the panic that ReverseProxy ends it with: the client sees a broken answer
// too. While nothing of the answer has left, it can be told instead.
func (g *Gateway) broke(w http.ResponseWriter, r *http.Request, p *passage) {
	g.warn(p, "the upstream's answer broke off", p.cut)
	if !stethttp.Discard(w) {
		panic(http.ErrAbortHandler)
	}
	p.route.cfg.Refuse(w, r, p.problem(true))
}

// why names the cause of a failure: that the request's time was over, if it was.
func (p *passage) why(otherwise string) string {
	switch cause := context.Cause(p); {
	case errors.Is(cause, stet.ErrExecutionTimeout):
		return "execution-timeout"
	case errors.Is(cause, stet.ErrLeaseLost):
		return "lease-lost"
	}
	return otherwise
}

// failed answers for an upstream that gave no answer, and states what that proves.
func (g *Gateway) failed(w http.ResponseWriter, r *http.Request, err error) {
	p := passageOf(r.Context())
	sent := p.maySent()
	switch {
	case p.claim == nil && sent:
		stethttp.Observe(p.w, stet.Unknown, string(stethttp.UpstreamFailed))
	case p.claim == nil:
		stethttp.Observe(p.w, stet.Retryable, string(stethttp.UpstreamUnreachable))
	case sent:
		p.claim.Unknown(p.why(string(stethttp.UpstreamFailed)))
	default:
		p.claim.NotExecuted(string(stethttp.UpstreamUnreachable))
	}
	if p.claim != nil || p.upload.broken() == nil && p.Err() == nil { // or it was the client who went away
		g.warn(p, "no answer from the upstream", err, slog.Bool("sent", sent))
	}
	p.route.cfg.Refuse(w, r, p.problem(sent))
}

// warn logs a failure of the upstream. What net/http quotes in an error is data: of an answer, or of a request.
func (g *Gateway) warn(p *passage, what string, err error, attrs ...slog.Attr) {
	text, _, _ := strings.Cut(err.Error(), `"`)
	attrs = append(attrs, slog.String("route", p.route.cfg.Route), slog.String("error", text))
	if p.claim != nil {
		attrs = append(attrs, slog.String("id", g.engine.Tag(p.claim.ID())))
	}
	g.log.LogAttrs(p, slog.LevelWarn, what, attrs...)
}

// problem is what the client is told.
func (p *passage) problem(sent bool) *stethttp.Problem {
	cause := context.Cause(p)
	code := stethttp.UpstreamFailed
	var timeout net.Error
	again := p.route.cfg.RetryAfterMax
	switch {
	case errors.As(p.upload.broken(), &timeout) && timeout.Timeout():
		code = stethttp.RequestTimeout
	case !sent:
		code, again = stethttp.UpstreamUnreachable, time.Second
	case errors.Is(cause, stet.ErrLeaseLost):
		code = stethttp.OutcomeUnknown
	case errors.Is(cause, stet.ErrExecutionTimeout), errors.Is(cause, context.DeadlineExceeded):
		code = stethttp.ExecutionTimeout
	}
	doc := stethttp.NewProblem(code, p.route.cfg.ProblemBase).After(again)
	if p.claim == nil {
		p.unkeyed(doc)
	}
	return doc
}

// unkeyed takes the advice about keys out of the answer to a request that runs unguarded. What may have had its effect cannot
// safely be sent again there.
func (p *passage) unkeyed(doc *stethttp.Problem) {
	doc.KeyAction = ""
	switch {
	case doc.Code == stethttp.UpstreamUnreachable:
		doc.Detail = "The request was not sent. Send it again later."
	case doc.Code == stethttp.RequestTimeout:
		doc.Detail, doc.RetryAfter = "The body was not complete in time.", 0
	case p.once:
		doc.Detail = "The request was sent and no complete answer came back: it may have had its effect."
		doc.Retryable, doc.RetryAfter = false, 0
	default:
		doc.Detail = "The request was sent and no complete answer came back. Send it again later."
	}
}
