package stethttp

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/canon"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/fill"
	"github.com/stet-dev/stet/internal/framing"
	"github.com/stet-dev/stet/internal/names"
)

// Config says how the requests of one route, or of a whole API, are guarded. Its zero value is
// ready to use: keys are required on POST and PATCH and honoured on PUT and DELETE, and nothing is
// executed twice without proof that it had no effect.
type Config struct {
	Route string // the name in metrics and records; default "default"
	Mode  Mode

	EnabledMethods  []string // upper case; other methods always pass; default POST, PUT, PATCH, DELETE
	RequiredMethods []string // with ModeByMethod; default POST, PATCH; an empty, non-nil slice requires none

	// RefuseOverride refuses a request that asks to be treated as another one of EnabledMethods, in
	// X-HTTP-Method-Override, X-HTTP-Method, X-Method-Override, X-Original-Method or the query
	// parameter _method, or as a request for another target, in X-Original-URL, X-Rewrite-URL or
	// X-Original-URI. By default the layer ignores these, as HTTP does.
	RefuseOverride bool

	Policy stet.Policy   // leases, timeouts and retention; zero fields are the engine's
	MinTTL time.Duration // least retention a client can ask for with Idempotency-TTL; default 1 h
	MaxTTL time.Duration // most retention a client can ask for; default 30 days

	Waiting       Waiting       // what a duplicate of a running request gets; default NoWait
	WaitTimeout   time.Duration // how long a duplicate waits, and the limit of a client's Prefer: wait=N; default 30 s
	RetryAfterMax time.Duration // the largest Retry-After that is sent; default 30 s

	On5xx      On5xx
	OnPanic    OnPanic
	OnOversize OnOversize
	Withhold   bool // a result that could not be stored is not sent; the client gets outcome-unknown
	FailOpen   bool // if the store does not answer, run unprotected; responses then carry Stet-Unprotected

	MaxBody     int64         // of the request, bytes; default 1 MiB
	MaxResponse int64         // of a response kept, bytes; default 1 MiB
	MaxHeader   int64         // of a response's headers and trailers kept, bytes; default 64 KiB
	BodyTimeout time.Duration // for the whole request body to arrive; default 30 s; [stet.Never]: the server's own limits alone

	// MaxRequestAge, if set, is how long ago a request may have been sent first. It then has to say so
	// in Idempotency-First-Sent, which may be up to five minutes ahead of this machine's clock.
	// Default: no limit.
	MaxRequestAge time.Duration

	EarlyData bool // refuse a keyed request with Early-Data: 1 (425, RFC 8470 section 5.2)

	// StatusOutcome says what single statuses mean if the handler made no statement of its own:
	// [stet.Completed], [stet.Unknown], or [stet.Retryable] where nothing happened. It comes before
	// NoStoreStatus and On5xx. Default: none.
	StatusOutcome map[int]stet.State
	// TrustHeader, if set, names a response header that the API itself sets on each of its answers.
	// What a status means counts in such answers alone: any other is that of a proxy in between,
	// and the outcome is unknown unless the handler has stated it. It is for handlers that pass
	// requests on.
	TrustHeader   string
	NoStoreStatus []int // statuses that mean nothing happened; from 300; default 401, 403, 407, 408, 421, 425, 429; empty, non-nil: none
	// Status changes statuses of the layer's own answers, as profiles do: 400 to 499. Zero stands
	// for that of the problem.
	Status struct{ Mismatch, InvalidKey int }

	KeyHeader   string       // the request header with the key; default Idempotency-Key
	Key         stet.KeyRule // which keys are valid; default: a string of RFC 9651, or a bare key
	Fingerprint stet.Recipe  // what makes two requests the same; default: method, path, query, media type and body
	Replay      ReplayConfig // which headers a replay has

	// Errors is the form of the layer's own answers; default: RFC 9457 problem documents. Clients of
	// gRPC and gRPC-Web get a status of gRPC in any case.
	Errors ErrorStyle
	// Render writes the layer's own answers in place of Errors, for clients that read another form,
	// such as those of Connect. It sends status, headers and body. Headers that do not
	// depend on the form are set before: the key's echo, Retry-After, Link, Cache-Control,
	// WWW-Authenticate, CORS, Stet-Outcome. What Render writes is sent when it returns. If it
	// panics, which goes no further, or writes nothing, the answer has the form of Errors. Render
	// may be called while the handler still runs.
	Render func(w http.ResponseWriter, r *http.Request, p *Problem)
	// AllowOrigins are the origins whose scripts may read the layer's own answers: without it a
	// browser shows them no code and no Retry-After (Fetch standard, section 3.2). Origins are
	// written as browsers send them, such as https://shop.example, or "*" alone for all of them. A
	// listed origin may send credentials; "*" may not. Answers of the handler, and replays of them,
	// carry what the handler wrote; preflights pass to it. Default: none.
	AllowOrigins []string
	ProblemBase  string  // prefix of problem types, followed by the code; default [DefaultProblemBase]
	Limits       *Limits // shared by the routes that have the same one; default: the defaults of [LimitsConfig]
	// Client returns the address that a request came from, for
	// [LimitsConfig].UnauthenticatedPerSecond. Default: that of r.RemoteAddr, which behind a proxy
	// is the proxy's.
	Client func(r *http.Request) netip.Addr
	// Continue reports whether the handler can go on with a record that a run left at a recovery
	// point. Where it cannot, the record is left as it is, and the request is in progress: see
	// [stet.Request].Continue. A route whose handler is a flow has its Knows here. Default: it can.
	Continue func(r *stet.Record) bool
}

// Mode says whether the layer acts on a route.
type Mode uint8

const (
	ModeByMethod Mode = iota // keys are required on RequiredMethods and honoured on the other EnabledMethods
	ModeOff                  // everything passes
	ModeShadow               // everything passes as it would without the layer, which counts what it would have answered
	ModeOptional             // keys are honoured on EnabledMethods
	ModeRequired             // keys are required on EnabledMethods
)

var modeWords = [...]string{ModeByMethod: "by-method", ModeOff: "off", ModeShadow: "shadow", ModeOptional: "optional", ModeRequired: "required"}

// String returns the word of the configuration file; [ModeByMethod] is "by-method", which a route
// has there without a word.
func (m Mode) String() string { return names.Of("Mode", modeWords[:], m) }

// MarshalText returns the word of [Mode.String]. The error says that there is no such mode.
func (m Mode) MarshalText() ([]byte, error) { return names.Text("mode", modeWords[:], m) }

// UnmarshalText accepts the words of [Mode.String]: by-method, off, shadow, optional and required.
// The error lists them.
func (m *Mode) UnmarshalText(text []byte) error { return names.Parse("mode", modeWords[:], text, m) }

// enforces reports whether a layer in this mode refuses anything.
func (m Mode) enforces() bool { return m != ModeOff && m != ModeShadow }

// Waiting says what a duplicate of a running request gets.
type Waiting uint8

const (
	NoWait   Waiting = iota // 409 at once
	Wait                    // the answer of the first request, or 409 after WaitTimeout
	Accepted                // 202 at once
)

var waitingWords = [...]string{NoWait: "no-wait", Wait: "wait", Accepted: "accepted"}

// String returns the word of the configuration file.
func (w Waiting) String() string { return names.Of("Waiting", waitingWords[:], w) }

// MarshalText returns the word of [Waiting.String]. The error says that there is no such wait
// policy.
func (w Waiting) MarshalText() ([]byte, error) { return names.Text("wait policy", waitingWords[:], w) }

// UnmarshalText accepts the words of [Waiting.String]: no-wait, wait and accepted. The error lists
// them.
func (w *Waiting) UnmarshalText(text []byte) error {
	return names.Parse("wait policy", waitingWords[:], text, w)
}

// On5xx says what a status of 500 or above means if the handler made no statement of its own.
type On5xx uint8

const (
	ReplayFailure  On5xx = iota // it is the result and is replayed
	ReleaseFailure              // nothing happened, and a retry runs
	UnknownFailure              // the outcome is unknown
)

var on5xxWords = [...]string{ReplayFailure: "replay", ReleaseFailure: "release", UnknownFailure: "unknown"}

// String returns the word of the configuration file.
func (o On5xx) String() string { return names.Of("On5xx", on5xxWords[:], o) }

// MarshalText returns the word of [On5xx.String]. The error says that there is no such meaning of a
// 5xx.
func (o On5xx) MarshalText() ([]byte, error) { return names.Text("meaning of a 5xx", on5xxWords[:], o) }

// UnmarshalText accepts the words of [On5xx.String]: replay, release and unknown. The error lists
// them.
func (o *On5xx) UnmarshalText(text []byte) error {
	return names.Parse("meaning of a 5xx", on5xxWords[:], text, o)
}

// OnPanic says what a panic of the handler means for the record. The panic always goes on.
type OnPanic uint8

const (
	PanicUnknown OnPanic = iota // the outcome is unknown
	PanicRelease                // nothing happened, and a retry runs
	PanicReplay                 // the result is a 500, and is replayed
)

var onPanicWords = [...]string{PanicUnknown: "unknown", PanicRelease: "release", PanicReplay: "replay"}

// String returns the word of the configuration file.
func (o OnPanic) String() string { return names.Of("OnPanic", onPanicWords[:], o) }

// MarshalText returns the word of [OnPanic.String]. The error says that there is no such meaning of
// a panic.
func (o OnPanic) MarshalText() ([]byte, error) {
	return names.Text("meaning of a panic", onPanicWords[:], o)
}

// UnmarshalText accepts the words of [OnPanic.String]: unknown, release and replay. The error lists
// them.
func (o *OnPanic) UnmarshalText(text []byte) error {
	return names.Parse("meaning of a panic", onPanicWords[:], text, o)
}

// OnOversize says what is kept of a response over MaxResponse or MaxHeader.
type OnOversize uint8

const (
	Tombstone OnOversize = iota // only that the request is done; retries get result-not-retained
	OmitBody                    // status and headers; replays have no body and say so
)

var onOversizeWords = [...]string{Tombstone: "tombstone", OmitBody: "omit-body"}

// String returns the word of the configuration file.
func (o OnOversize) String() string { return names.Of("OnOversize", onOversizeWords[:], o) }

// MarshalText returns the word of [OnOversize.String]. The error says that there is no such rest of
// a large response.
func (o OnOversize) MarshalText() ([]byte, error) {
	return names.Text("rest of a large response", onOversizeWords[:], o)
}

// UnmarshalText accepts the words of [OnOversize.String]: tombstone and omit-body. The error lists
// them.
func (o *OnOversize) UnmarshalText(text []byte) error {
	return names.Parse("rest of a large response", onOversizeWords[:], text, o)
}

// ReplayConfig shapes replays.
type ReplayConfig struct {
	KeepSetCookie bool     // replay Set-Cookie; by default a replay sets no cookies
	DropHeaders   []string // further response headers that are not replayed; default none
	Markers       Markers  // which headers tell that an answer is a replay; default both
}

// Markers are the headers that mark a replay.
type Markers uint8

// The headers that mark a replay.
const (
	BothMarkers  Markers = iota // Idempotent-Replayed and Idempotent-Replay
	ReplayedOnly                // Idempotent-Replayed
	ReplayOnly                  // Idempotent-Replay
	NoMarkers
)

var markersWords = [...]string{BothMarkers: "both", ReplayedOnly: "replayed", ReplayOnly: "replay", NoMarkers: "none"}

// String returns the word of the configuration file.
func (m Markers) String() string { return names.Of("Markers", markersWords[:], m) }

// MarshalText returns the word of [Markers.String]. The error says that there is no such choice of
// markers.
func (m Markers) MarshalText() ([]byte, error) {
	return names.Text("choice of markers", markersWords[:], m)
}

// UnmarshalText accepts the words of [Markers.String]: both, replayed, replay and none. The error
// lists them.
func (m *Markers) UnmarshalText(text []byte) error {
	return names.Parse("choice of markers", markersWords[:], text, m)
}

// ErrorStyle is the form of the layer's own answers.
type ErrorStyle uint8

const (
	ProblemErrors ErrorStyle = iota // RFC 9457 problem documents
	IETFErrors                      // the same, with the titles of the IETF draft
	StripeErrors                    // Stripe's error object
	PlainErrors                     // {"error": "..."}
)

// DefaultProblemBase is the default of [Config].ProblemBase.
const DefaultProblemBase = "https://stet-dev.github.io/stet/problems/"

const (
	defaultKeyHeader   = "Idempotency-Key"
	defaultMaxResponse = 1 << 20
)

// ProfileNames are the names [Profile] takes.
var ProfileNames = []string{"default", "ietf", "stripe", "stripe-v2", "seed-strict", "gateway-compat"}

// Profile returns the Config of a published dialect, for use as it is or with changes.
// [ProfileNames] lists the names; another name is an error.
func Profile(name string) (c Config, err error) {
	switch name {
	case "default":
	case "ietf":
		c.Key.Syntax = stet.SFString
		c.EnabledMethods = []string{"POST", "PATCH"}
		c.Fingerprint.Body = stet.BodyRaw
		c.Errors = IETFErrors
	case "stripe", "stripe-v2":
		c.Key.Syntax = stet.Opaque
		c.EnabledMethods, c.RequiredMethods = []string{"POST"}, []string{}
		c.Status.Mismatch = 400
		c.Replay.Markers = ReplayedOnly
		c.Errors = StripeErrors
		c.Waiting = Wait // stripe-go sends no error object again, whatever its headers say
		if name == "stripe-v2" {
			c.EnabledMethods = []string{"POST", "DELETE"}
			c.On5xx = ReleaseFailure
			c.Policy.OnLapse = stet.LapseResume
			c.Policy.Retain = 30 * 24 * time.Hour
		}
	case "seed-strict":
		c.Key = stet.KeyRule{Syntax: stet.Opaque, MaxLen: 200}
		c.RequiredMethods = []string{"POST", "PUT", "PATCH", "DELETE"}
		c.Status.Mismatch, c.Status.InvalidKey = 409, 422
		c.NoStoreStatus = []int{}
		c.Fingerprint.Headers = []string{"Accept", "Accept-Language"}
		c.Policy.OnLapse = stet.LapseReexecute
		c.Replay.Markers = ReplayOnly
	case "gateway-compat":
		c.Key.Syntax = stet.Opaque
		c.EnabledMethods, c.RequiredMethods = []string{"POST", "PATCH", "PUT"}, []string{}
		c.Policy.OnLapse = stet.LapseReexecute
		c.Replay.Markers = NoMarkers
		c.Errors = PlainErrors
	default:
		return Config{}, fmt.Errorf("stethttp: there is no profile %q; there are %s", name, strings.Join(ProfileNames, ", "))
	}
	return c, nil
}

func (c Config) withDefaults(engine stet.Policy) Config {
	c = fill.Or(c, Config{
		Route:           "default",
		EnabledMethods:  []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		RequiredMethods: []string{http.MethodPost, http.MethodPatch},
		NoStoreStatus:   []int{401, 403, 407, 408, 421, 425, 429},
		Policy:          engine,
		MinTTL:          time.Hour,
		MaxTTL:          30 * 24 * time.Hour,
		WaitTimeout:     30 * time.Second,
		RetryAfterMax:   30 * time.Second,
		MaxBody:         1 << 20,
		MaxResponse:     defaultMaxResponse,
		MaxHeader:       64 << 10,
		BodyTimeout:     30 * time.Second,
		KeyHeader:       defaultKeyHeader,
		ProblemBase:     DefaultProblemBase,
	})
	c.KeyHeader = http.CanonicalHeaderKey(c.KeyHeader)
	c.TrustHeader = http.CanonicalHeaderKey(c.TrustHeader)
	if c.Limits == nil {
		c.Limits = NewLimits(LimitsConfig{})
	}
	return c
}

// Validate returns an error that names the first setting that cannot be used, and the reason.
func (c Config) Validate() error {
	if err := cmp.Or(c.Policy.Validate(), configBounds.Check(&c)); err != nil {
		return err
	}
	if err := c.Fingerprint.Validate(); err != nil {
		return fmt.Errorf("stethttp: Fingerprint: %w", err)
	}
	if err := validOrigins(c.AllowOrigins); err != nil {
		return fmt.Errorf("stethttp: AllowOrigins: %w", err)
	}
	if why := noKeyHeader(c.KeyHeader); why != "" {
		return fmt.Errorf("stethttp: KeyHeader: %q %s", c.KeyHeader, why)
	}
	if c.Limits != nil && c.Limits.unusable != nil {
		return c.Limits.unusable
	}
	if c.TrustHeader != "" && !canon.IsToken(c.TrustHeader) {
		return fmt.Errorf("stethttp: TrustHeader: %q is no name of a header", c.TrustHeader)
	}
	for status, means := range c.StatusOutcome {
		if status < 200 || status > 599 {
			return fmt.Errorf("stethttp: StatusOutcome: %d is no status of an answer: 200 to 599", status)
		}
		if means != stet.Completed && means != stet.Unknown && means != stet.Retryable {
			return fmt.Errorf("stethttp: StatusOutcome: %d means %s; it can mean completed, unknown or retryable", status, means)
		}
	}
	switch {
	case c.MinTTL > 0 && c.MaxTTL > 0 && c.MinTTL > c.MaxTTL:
		return errors.New("stethttp: MinTTL is over MaxTTL")
	case c.Waiting == Accepted && c.Errors == StripeErrors:
		return errors.New("stethttp: Waiting: Accepted cannot be used with StripeErrors; Stripe's clients take what is below 400 for the result")
	}
	for _, m := range c.EnabledMethods {
		if m == "" || m != strings.ToUpper(m) {
			return fmt.Errorf("stethttp: EnabledMethods: %q is no method; methods are upper case", m)
		}
	}
	return nil
}

// noKeyHeader says why no key can come in a header of this name, or returns an empty string.
func noKeyHeader(name string) string {
	if name == "" {
		return ""
	}
	switch form := door.Name(name); {
	case !canon.IsToken(name):
		return "is not the name of a header"
	case framing.HopByHop(form), form == "Host", form == "Content-Length", form == "Content-Type", form == "Content-Encoding", form == "Expect",
		form == "Via", form == "Date":
		return "says something of the message itself; use a header of its own, such as Idempotency-Key"
	case door.HoldsCredential(form):
		return "holds a credential, and keys are stored, listed and sent on; use a header of its own, such as Idempotency-Key"
	case strings.HasPrefix(form, "Stet-"):
		return "is said by the gateway alone; use a header of its own, such as Idempotency-Key"
	}
	return ""
}
