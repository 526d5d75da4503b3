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
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/framing"
	"github.com/stet-dev/stet/internal/quiet"
	"github.com/stet-dev/stet/stethttp"
)

const (
	outcomeHeader = "Stet-Outcome"
	downstreamKey = "Stet-Downstream-Key"
	downstreamID  = "Stet-Downstream-Id"
)

var errStatus = errors.New("gateway: the answer has no valid HTTP status")

// received checks an answer before it is passed on. Of a guarded request, the guard reads
// Stet-Outcome.
func (g *Gateway) received(res *http.Response) error {
	a := attemptOf(res.Request.Context())
	upgraded, asked := res.StatusCode == http.StatusSwitchingProtocols, res.Request.Header.Get("Upgrade")
	a.watchdog.answer(upgraded)
	g.reach.noteAnswer()
	g.learnLength(a, res.StatusCode)
	switch {
	case res.StatusCode < 100: // net/http reads such a status, and panics when it is written (RFC 9110 section 15)
		return errStatus
	case upgraded && (asked == "" || !strings.EqualFold(res.Header.Get("Upgrade"), asked)):
		return errUnasked // ReverseProxy takes a switch to nothing, and leaves others open that it refuses
	}
	g.readHeader(a, res.Header, via(res.ProtoMajor, res.ProtoMinor))
	if !upgraded {
		a.strip(res.Trailer)
		a.answer = answerBody{res.Body, g, a, res}
		res.Body = &a.answer
	}
	return nil
}

// readHeader takes from an answer's header what is for the gateway, and adds what the gateway says.
func (g *Gateway) readHeader(a *attempt, h http.Header, by string) {
	a.via[0] = by
	h["Via"] = joined(h["Via"], a.via[:])
	g.learn(a, h)
	a.strip(h)
	if _, typed := h["Content-Type"]; !typed {
		a.w.Header()["Content-Type"] = nil // neither net/http nor the guard guesses one then
	}
}

// strip removes from a header or a trailer what is for the gateway alone, and other spellings of
// what the layer says, which are neither read nor passed on. What the upstream stated
// of an unguarded request is handed on first, because a route in shadow mode counts by it.
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
	a.hide(h, false)
}

// hide removes other spellings of what the layer says from a part of an answer. An interim answer
// says nothing of the layer's at all, and nothing of the connection that it came on, which
// ReverseProxy removes from final answers alone (RFC 9110 section 7.6.1).
func (a *attempt) hide(h http.Header, interim bool) {
	var hop framing.Names
	if interim {
		hop = framing.Listed(h["Connection"])
	}
	for name := range h {
		form := door.Name(name)
		if interim && (framing.HopByHop(form) || hop.Has(name)) {
			delete(h, name)
			continue
		}
		if other := form != name; other && (ofLayer(form) || form == a.route.keyForm) || (other || interim) && ours(form) {
			delete(h, name)
		}
	}
}

// ofLayer reports whether the layer says something in a field of an answer. To a client that reads
// names loosely, another spelling of the upstream's would be the layer's word.
func ofLayer(form string) bool {
	switch form {
	case "Idempotency-Key", "Idempotency-Expires", "Idempotent-Replayed", "Idempotent-Replay":
		return true
	}
	return false
}

// learn stores the names by which systems behind the upstream know the effect. It does so before
// anything can go wrong with the rest of the answer, so that a notice with only such a name finds
// the record.
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

var errDownstream = errors.New("send one line of visible ASCII, at most 255 bytes")

// downstreamName returns the name in lines, or was if there is none. It reports false if the lines
// cannot be used.
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

// answerBody watches the end of an answer. The trailers are known then. If the answer breaks off,
// short of its Content-Length, within a chunk or by a reset, the claim has to know before
// ReverseProxy panics so that the client sees the same.
type answerBody struct {
	io.ReadCloser
	g   *Gateway
	p   *attempt
	res *http.Response
}

func (b *answerBody) Read(buf []byte) (int, error) {
	n, err := b.ReadCloser.Read(buf)
	switch {
	case err == nil:
	case err == io.EOF && endsWithConnection(b.res):
		if n > 0 { // the guard has to have all of it first
			return n, nil
		}
		if b.g.endUnframed(b.p) {
			b.p.cutOff(errUnframed)
			return 0, io.ErrUnexpectedEOF
		}
	case err == io.EOF:
		b.p.strip(b.res.Trailer)
	default:
		b.p.cutOff(err)
	}
	return n, err
}

// endsWithConnection reports whether an answer has no other end: in HTTP/1, one that may have a body
// and has neither a length nor chunks does (RFC 9112 section 6.3). The system closes the connections
// of a process that is killed in the same way.
func endsWithConnection(res *http.Response) bool {
	return res.ProtoMajor == 1 && res.ContentLength < 0 && len(res.TransferEncoding) == 0 && res.Request.Method != http.MethodHead
}

var errUnframed = errors.New("gateway: the answer has neither a length nor chunks; it ended with its connection, and is no whole JSON")

// endUnframed reports whether an answer that ended with its connection was cut off. Where that
// cannot be told, the operator is, once for each route.
func (g *Gateway) endUnframed(a *attempt) (cut bool) {
	own, ok := a.w.(interface{ Unframed() (whole, cut bool) })
	if !ok {
		return false
	}
	whole, cut := own.Unframed()
	if !whole && !cut && !a.route.unframed.Swap(true) {
		g.cfg.Log.WarnContext(a, "an answer with neither a length nor chunks has ended with its connection: had it been cut off, it would look the same, "+
			"and it counts as the result; have the API send Content-Length or chunks", slog.String("route", a.route.Config.Route))
	}
	return cut
}

// cutOff states that the answer has broken off.
func (a *attempt) cutOff(err error) {
	if a.claim != nil {
		a.cut = err
		a.claim.Unknown(a.why("truncated-response"))
	}
}

// broke ends a request whose answer broke off. If nothing of the answer has left, the client is
// told; otherwise the panic of ReverseProxy goes on, and the client sees a broken answer, too.
func (g *Gateway) broke(w http.ResponseWriter, r *http.Request, a *attempt) {
	g.warn(a, "the upstream's answer broke off", a.cut)
	if own, ok := w.(interface{ Discard() bool }); !ok || !own.Discard() {
		panic(http.ErrAbortHandler)
	}
	a.route.guard.Refuse(w, r, a.problem(true))
}

// why returns the cause of a failure: that the request's time was over, if it was, else otherwise.
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
func (g *Gateway) failed(w http.ResponseWriter, r *http.Request, a *attempt, err error) {
	sent := a.sent
	if sent { // without a claim, as in shadow mode, nothing is stated on it
		a.claim.Unknown(a.why(string(stethttp.UpstreamFailed)))
		stethttp.Observe(a.w, stet.Unknown, string(stethttp.UpstreamFailed))
	} else {
		a.claim.NotExecuted(string(stethttp.UpstreamUnreachable))
		stethttp.Observe(a.w, stet.Retryable, string(stethttp.UpstreamUnreachable))
	}
	left := a.upload.broken() != nil || errors.Is(context.Cause(a), context.Canceled) // the client went away, not the upstream
	if a.claim != nil || !left {
		g.warn(a, "no answer from the upstream", err, slog.Bool("sent", sent))
	}
	a.route.guard.Refuse(w, r, a.problem(sent))
}

// tellResent logs that a request is sent a second time.
func (g *Gateway) tellResent(a *attempt, err error) {
	g.warn(a, "the upstream did nothing with a request, or had ended its connection: it is sent once more", err)
}

// warn logs a failure of the upstream without what net/http quotes of an answer or a request.
func (g *Gateway) warn(a *attempt, what string, err error, attrs ...slog.Attr) {
	attrs = append(attrs, slog.String("route", a.route.Config.Route), slog.String("error", quiet.Text(err.Error())))
	if a.claim != nil {
		id := a.claim.ID()
		attrs = append(attrs, slog.String("id", g.engine.Tag(id)), slog.String("scope", string(id.Scope)))
	}
	g.cfg.Log.LogAttrs(a, slog.LevelWarn, what, attrs...)
}

// problem returns what the client is told.
func (a *attempt) problem(sent bool) *stethttp.Problem {
	cause := context.Cause(a)
	code := stethttp.UpstreamFailed
	var timeout net.Error
	again := a.route.Config.RetryAfterMax
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
	doc := stethttp.NewProblem(code, a.route.Config.ProblemBase).After(again)
	if sent {
		doc.MayHaveRun()
	}
	if a.claim == nil {
		a.unkeyed(doc)
	}
	return doc
}

// unkeyed removes advice about keys from the answer to an unguarded request. Without a key, a
// request that may have had its effect cannot safely be sent again.
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
