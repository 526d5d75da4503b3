package stethttp

import (
	"net/http"
	"time"

	"github.com/stet-dev/stet/internal/outcome"
)

// Code is the machine-readable reason why the layer, not the handler, answered. docs/problems has a
// page for each.
type Code string

// The codes of the layer's own answers.
const (
	MissingKey          Code = "missing-key"
	InvalidKey          Code = "invalid-key"
	Unauthenticated     Code = "unauthenticated"
	KeyReused           Code = "key-reused"
	InProgress          Code = "in-progress"
	OutcomeUnknown      Code = "outcome-unknown"
	ResultNotRetained   Code = "result-not-retained"
	ExpiredKey          Code = "expired-key"
	RequestTooOld       Code = "request-too-old"
	PayloadTooLarge     Code = "payload-too-large"
	RequestTimeout      Code = "request-timeout"
	TooEarly            Code = "too-early"
	KeyQuotaExceeded    Code = "key-quota-exceeded"
	RateLimited         Code = "rate-limited"
	StoreUnavailable    Code = "store-unavailable"
	ExecutionTimeout    Code = "execution-timeout"
	UpstreamUnreachable Code = "upstream-unreachable"
	UpstreamFailed      Code = "upstream-failed"
	RouteNotCovered     Code = "route-not-covered"
	InvalidTarget       Code = "invalid-target" // this and the next two: readers of the request may understand it differently
	InvalidMethod       Code = "invalid-method"
	BadFraming          Code = "bad-framing"
	Loop                Code = "loop"          // sent by a gateway whose upstream leads back to it
	ShuttingDown        Code = "shutting-down" // sent by a gateway that has not looked at the request
)

// Problem is a problem document (RFC 9457). KeyAction tells the client what to do with its key:
// reuse it for the retry, rotate to a new one, or stop retrying.
type Problem struct {
	Type           string   `json:"type"`
	Title          string   `json:"title"`
	Status         int      `json:"status"`
	Detail         string   `json:"detail"`
	Code           Code     `json:"code"`
	Retryable      bool     `json:"retryable"`
	KeyAction      string   `json:"key_action,omitempty"`
	RetryAfter     int64    `json:"retry_after,omitempty"` // seconds, also sent as Retry-After
	OriginalStatus int      `json:"original_status,omitempty"`
	Mismatch       []string `json:"mismatch,omitempty"` // the parts that differ from the first request with the key

	challenge string // with status 401: what is missing (RFC 9110 section 11.6.1)
	outcome   string // what a layer in front is told in Stet-Outcome
}

// kind is what the layer says with a code, and the result in idem_requests_total that the request
// counts as.
type kind struct {
	status    int
	result    string
	retryable bool
	keyAction string
	title     string
	detail    string
}

// ofRun marks a code that a run may end with. The request then counts as that run: new or retry.
const ofRun = ""

const (
	reuse  = "reuse"
	rotate = "rotate"
	stop   = "stop"
)

var kinds = map[Code]kind{
	MissingKey: {400, "missing_key", false, "", "Idempotency-Key is missing",
		"This operation needs an Idempotency-Key: send a new random one (a UUID) with each operation, and " +
			"the same one with each retry of it."},
	InvalidKey: {400, "invalid_key", false, rotate, "Idempotency-Key is not valid",
		"The Idempotency-Key cannot be used."},
	Unauthenticated: {401, "unauthenticated", false, reuse, "The request does not say whose it is",
		"Idempotency keys belong to a principal, and this request names none. Authenticate, and send it " +
			"again with the same key."},
	KeyReused: {422, "conflict", false, stop, "Idempotency-Key was used for another request",
		"This Idempotency-Key was first sent with another request. If this is a retry, repeat the first " +
			"request unchanged: with a new key it would happen twice. Use a new key only for a new operation."},
	InProgress: {409, "in_progress", true, reuse, "A request with this Idempotency-Key is running",
		"The first request with this Idempotency-Key has not ended. Ask again later with the same key."},
	OutcomeUnknown: {409, "unknown", true, reuse, "The outcome of the first request is not known",
		"The first request with this Idempotency-Key may have had its effect. It is not run again; ask " +
			"again later with the same key to learn the outcome."},
	ResultNotRetained: {409, "replay", false, stop, "The request is done, but its response was not kept",
		"The first request with this Idempotency-Key has ended; its response was too large to keep. Look " +
			"the result up instead of sending it again."},
	ExpiredKey: {422, "conflict", false, rotate, "Idempotency-Key has expired",
		"The result for this Idempotency-Key is no longer kept, and the key cannot be used again. Make " +
			"sure that the operation is not done already, then use a new key."},
	RequestTooOld: {412, "limited", false, stop, "The request is too old",
		"Idempotency-First-Sent must say, as an HTTP date, when the request was first sent. It is missing, " +
			"or that was too long ago, or is more than five minutes ahead. A retry so late could run again " +
			"what is done."},
	PayloadTooLarge: {413, "too_large", false, stop, "The request body is too large",
		"The body is over the limit for requests with an Idempotency-Key. Nothing was run."},
	RequestTimeout: {408, "limited", true, reuse, "The request body did not arrive in time",
		"The body was not complete in time. Nothing was run; send the request again with the same key."},
	TooEarly: {425, "limited", true, reuse, "The request came in early data",
		"A request in TLS early data may be a replay. Send it again after the handshake, with the same key."},
	KeyQuotaExceeded: {429, "limited", true, reuse, "Too many idempotency keys are stored",
		"No new Idempotency-Key is accepted until older ones expire. Nothing was run; retries of known " +
			"keys still work."},
	RateLimited: {429, "limited", true, reuse, "Too many requests",
		"Nothing was run. Send the request again later with the same key."},
	StoreUnavailable: {503, "store_error", true, reuse, "The idempotency store did not answer",
		"Whether this request ran before cannot be checked, so it was not run. Send it again later with the same key."},
	ExecutionTimeout: {504, ofRun, true, reuse, "The request took too long",
		"The request was started and did not end in time: it may have had its effect. It is not run " +
			"again; ask again later with the same key to learn the outcome."},
	UpstreamUnreachable: {502, ofRun, true, reuse, "The upstream could not be reached",
		"The request was not sent. Send it again later with the same key."},
	UpstreamFailed: {502, ofRun, true, reuse, "The upstream's answer was lost",
		"The request was sent and no complete answer came back: it may have had its effect. It is not run " +
			"again; ask again later with the same key to learn the outcome."},
	RouteNotCovered: {400, "limited", false, stop, "The route is not covered",
		"This API answers state-changing requests only on routes that are configured, and this is none of them."},
	InvalidTarget: {400, "limited", false, stop, "The request's target cannot be used",
		"The request's target can be read in more than one way, so it was not looked at. Send it without " +
			"encoded dot segments, backslashes, number signs and control characters."},
	InvalidMethod: {400, "limited", false, stop, "The request's method cannot be used",
		"Methods are case-sensitive, and this one is another spelling of a method that is guarded. Send " +
			"the method in upper case."},
	BadFraming: {400, "limited", false, stop, "The request's framing is broken",
		"Where the request's body ends cannot be told for certain, so it was not looked at. Send either " +
			"Content-Length or Transfer-Encoding: chunked, and whole chunks."},
	Loop: {508, "limited", false, stop, "The request goes round in circles",
		"The request came through gateways like this one too often: the upstream of one of them leads back to it."},
	ShuttingDown: {503, "limited", true, reuse, "The gateway is shutting down",
		"Nothing was run. Send the request again, with the same key."},
}

// ietfTitles are the titles of draft-ietf-httpapi-idempotency-key-header-07 section 2.7.
var ietfTitles = map[Code]string{
	MissingKey: "Idempotency-Key is missing",
	KeyReused:  "Idempotency-Key is already used",
	InProgress: "A request is outstanding for this Idempotency-Key",
}

// NewProblem returns the problem document of a code. Its type is base followed by the code.
func NewProblem(code Code, base string) *Problem {
	k := kinds[code]
	p := &Problem{Type: base + string(code), Title: k.title, Status: k.status, Detail: k.detail, Code: code,
		Retryable: k.retryable, KeyAction: k.keyAction, outcome: outcome.NotExecuted}
	switch code {
	case ExecutionTimeout, UpstreamFailed:
		p.outcome = outcome.Unknown
	case ResultNotRetained: // as a replay it is the result
		p.outcome = ""
	case ShuttingDown:
		p.RetryAfter = 1
	}
	return p
}

// MayHaveRun states that the request itself may have had its effect. By default an answer of the
// layer tells a layer in front, in Stet-Outcome, that the request was not executed; this one says
// that the outcome is unknown.
func (p *Problem) MayHaveRun() *Problem {
	p.outcome = outcome.Unknown
	return p
}

// After sets Retry-After and the member retry_after, in whole seconds.
func (p *Problem) After(d time.Duration) *Problem {
	p.RetryAfter = int64(d / time.Second)
	return p
}

// ServeHTTP implements [http.Handler]: it answers the request with the problem.
func (p *Problem) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	new(Config).respond(w, r, p)
}
