package stethttp

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/outcome"
)

// readOutcome reads the lines of Stet-Outcome; s is 0 if there is none. Case does not matter.
// Another word, or more than one line, might mean any outcome: s is then Unknown, and cause is
// causeOutcome.
func readOutcome(lines []string) (s stet.State, cause string) {
	switch {
	case len(lines) == 0:
		return 0, ""
	case len(lines) > 1:
		return stet.Unknown, causeOutcome
	}
	if s, known := outcome.States[strings.ToLower(strings.Trim(lines[0], " \t"))]; known {
		return s, causeStated
	}
	return stet.Unknown, causeOutcome
}

// stated states on the claim what the handler said in lines of Stet-Outcome, and reports whether it
// said anything.
func (x *run) stated(lines []string) bool {
	s, cause := readOutcome(lines)
	if cause == causeOutcome {
		x.miswired(cause)
	}
	x.declare(s, cause)
	return s != 0
}

// declare states an outcome on the claim; 0 is none.
func (x *run) declare(s stet.State, cause string) {
	switch s {
	case stet.Retryable:
		x.claim.NotExecuted(cause)
	case stet.Unknown:
		x.claim.Unknown(cause)
	case stet.Completed:
		x.claim.Completed()
	}
}

// These are the causes of outcomes that the handler's answer says.
const (
	causeStated = "stated" // in Stet-Outcome
	causeStatus = "status" // by its status alone

	causeElsewhere = "elsewhere" // by a redirection: the request belongs elsewhere
)

// relay tells a layer in front the outcome of a run that was refused in the layer's place, because
// it cannot tell that answer from the handler's.
func (x *run) relay(h http.Header) {
	switch x.claim.Head().State {
	case stet.Retryable:
		h[outcomeHeader] = []string{outcome.NotExecuted}
	case stet.Completed:
	default:
		h[outcomeHeader] = []string{outcome.Unknown}
	}
}

// These are causes of [stet.Miswired].
const (
	causeOutcome = "bad-outcome"  // the handler stated its outcome in an unknown word; it counts as unknown
	causeGuard   = "second-guard" // the request met the record that was made for it: see [exchange.metItself]
	causeRender  = "bad-render"   // Config.Render panicked, or answered nothing
)

func (x *exchange) miswired(cause string) {
	x.g.engine.Observe(stet.Event{Kind: stet.Miswired, ID: x.id, Route: x.g.cfg.Route, TraceID: traceID(x.r.Header),
		Attempt: x.attempt, Cause: cause})
}

// obeyed reports whether a handler whose context had ended before it returned has left no answer,
// because of that. A refusal that states that nothing happened is one: a proxy knows what it sent.
func (x *run) obeyed(explicit bool) bool {
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
func (x *run) state() {
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
func (x *run) says() stet.State {
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
func (x *run) redirects() bool {
	switch x.cap.status {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return len(valuesOf(x.cap.sent, "Location")) > 0
	}
	return false
}

// failure reports whether a status says nothing once the handler's context has ended. Package
// connect uses 499 for a cancelled context.
func failure(status int) bool { return status >= 500 || status == 499 }

// grpcSays maps the statuses of gRPC to outcomes (gRPC core, statuscodes.md). Retryable means that
// the call was refused before it did anything; after Unknown it may have had its effect. All others
// are results.
var grpcSays = map[string]stet.State{
	"7": stet.Retryable, "8": stet.Retryable, "14": stet.Retryable, "16": stet.Retryable, // PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNAVAILABLE, UNAUTHENTICATED
	"1": stet.Unknown, "2": stet.Unknown, "4": stet.Unknown, "13": stet.Unknown, "15": stet.Unknown, // CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, DATA_LOSS
	"0": 0, "3": 0, "5": 0, "6": 0, "9": 0, "10": 0, "11": 0, "12": 0,
}

const (
	grpcStatus = "Grpc-Status"
	grpcType   = "application/grpc" // begins the media types of gRPC and gRPC-Web
)

func mediaType(h http.Header) string { return strings.ToLower(h.Get("Content-Type")) }

// ofGRPC reports whether a request or an answer is one of gRPC or gRPC-Web.
func ofGRPC(h http.Header) bool { return strings.HasPrefix(mediaType(h), grpcType) }

// grpc returns what a gRPC answer says of the outcome, and whether it is a gRPC answer. Its HTTP
// status is 200 in any case; the gRPC status is in the trailer, in the header of an answer without
// messages, or, in gRPC-Web, in the last frame of the body. If it is missing or unreadable, or that
// body was too long to be held, the outcome is unknown. If the HTTP status is not 200, something
// before the service has answered, and that status counts (gRPC, PROTOCOL-HTTP2.md and
// http-grpc-status-mapping.md).
func (c *capture) grpc() (said stet.State, is bool) {
	if !ofGRPC(c.header) {
		return 0, false
	}
	lines := valuesOf(c.sent, grpcStatus)
	lines = append(lines, valuesOf(c.trailers(), grpcStatus)...)
	if web, is := strings.CutPrefix(mediaType(c.header), grpcType+"-web"); is && len(lines) == 0 && !c.oversize {
		lines = grpcWebStatus(c.bytes(), strings.HasPrefix(web, "-text"), valuesOf(c.sent, "Grpc-Encoding"))
	}
	switch {
	case len(lines) == 1:
		if said, known := grpcSays[lines[0]]; known {
			return said, true
		}
	case len(lines) == 0 && c.status != http.StatusOK:
		return 0, false
	}
	return stet.Unknown, true
}

func valuesOf(fields []stet.Field, name string) (values []string) {
	for _, f := range fields {
		if f.Name == name {
			values = append(values, f.Value)
		}
	}
	return values
}

// grpcWebStatus returns the status in the trailer frame of a body. That is the last frame; the
// highest bit of its flags is set, and it holds header lines (gRPC, PROTOCOL-WEB.md). For a frame
// that cannot be read it returns "", which is no status. encoding has the lines of Grpc-Encoding.
func grpcWebStatus(body []byte, text bool, encoding []string) (lines []string) {
	const head, isTrailer, isCompressed = 5, 0x80, 0x01
	if text {
		body = decoded(body)
	}
	for len(body) >= head {
		flags, size := body[0], uint64(binary.BigEndian.Uint32(body[1:head]))
		body = body[head:]
		if uint64(len(body)) < size {
			return nil
		}
		frame := body[:size]
		body = body[size:]
		if flags&isTrailer == 0 {
			continue
		}
		if flags&isCompressed != 0 {
			var ok bool
			if frame, ok = decompressed(frame, encoding); !ok || len(body) > 0 {
				return []string{""}
			}
		}
		for line := range bytes.Lines(frame) {
			if name, v, ok := strings.Cut(string(line), ":"); ok && strings.EqualFold(strings.TrimSpace(name), grpcStatus) {
				lines = append(lines, strings.TrimSpace(v))
			}
		}
	}
	return lines
}

// maxTrailer bounds a trailer frame without its compression: a few bytes can stand for gigabytes.
const maxTrailer = 16 << 10

// decompressed returns a frame without its compression, which Grpc-Encoding names (gRPC,
// PROTOCOL-HTTP2.md: a compressed frame without a name for its compression is malformed). connect-go
// compresses the trailer frame like the messages. It reports false if the frame cannot be read, or
// is too long.
func decompressed(frame []byte, encoding []string) ([]byte, bool) {
	if len(encoding) != 1 || encoding[0] != "gzip" {
		return nil, false
	}
	z, err := gzip.NewReader(bytes.NewReader(frame))
	if err != nil {
		return nil, false
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxTrailer+1))
	return plain, err == nil && len(plain) <= maxTrailer
}

// decoded reads base64 that may have padding wherever the server has flushed.
func decoded(text []byte) []byte {
	var out []byte
	for quantum := range slices.Chunk(text, 4) {
		var err error
		if out, err = base64.StdEncoding.AppendDecode(out, quantum); err != nil {
			return nil
		}
	}
	return out
}
