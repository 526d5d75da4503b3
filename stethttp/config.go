package stethttp

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet"
)

// Config is how requests of one route, or of a whole API, are guarded. The zero value is a good one: keys are required on
// POST and PATCH, honoured on PUT and DELETE, and nothing is ever executed twice without proof.
type Config struct {
	Route string // a name for metrics and records; default "default"
	Mode  Mode

	EnabledMethods  []string // other methods always pass; default POST, PUT, PATCH, DELETE
	RequiredMethods []string // with ModeByMethod; default POST, PATCH; an empty, non-nil slice requires none

	// RefuseOverride refuses a request that asks to be taken for one of EnabledMethods other than its own, in X-HTTP-Method-Override,
	// X-HTTP-Method, X-Method-Override or the query parameter _method. By default they are nothing to the layer, as to HTTP.
	RefuseOverride bool

	Policy stet.Policy   // its zero fields are the engine's
	MinTTL time.Duration // the Idempotency-TTL hint is clamped to these; defaults 1 h
	MaxTTL time.Duration // and 30 days

	Waiting       Waiting
	WaitTimeout   time.Duration // with Wait, and the most that a client's Prefer: wait=N gets in any case; default 30 s
	RetryAfterMax time.Duration // default 30 s

	On5xx      On5xx
	OnPanic    OnPanic
	OnOversize OnOversize
	Withhold   bool // on_complete_failure: withhold. A result that could not be stored is not sent: the client gets outcome-unknown
	FailOpen   bool // run unprotected when the store does not answer; responses then carry Stet-Unprotected

	MaxBody       int64         // of the request, bytes; default 1 MiB
	MaxResponse   int64         // of a response kept, bytes; default 1 MiB
	MaxHeader     int64         // of a response's headers and trailers kept, bytes; default 64 KiB
	BodyTimeout   time.Duration // for the request's whole body to arrive; default 30 s; stet.Never: the server's own limits alone
	MaxRequestAge time.Duration // > 0: Idempotency-First-Sent is required and must not be older
	EarlyData     bool          // true: a keyed request with Early-Data: 1 is refused (425, RFC 8470 section 5.2)

	NoStoreStatus []int // statuses that say nothing happened; default 401, 403, 407, 408, 425, 429; empty, non-nil: none
	// Status changes statuses of the layer's own answers, as profiles do: 400 to 499. Zero stands for that of the problem.
	Status struct{ Mismatch, InvalidKey int }

	KeyHeader   string // default Idempotency-Key
	Key         stet.KeyRule
	Fingerprint stet.Recipe
	Replay      ReplayConfig

	Errors ErrorStyle
	// Render writes the body of the layer's own answers in the place of Errors, for clients that read other forms, such as those of
	// gRPC and Connect. Status, headers and body are Render's to send; what does not depend on the form is in the header before: the
	// key's echo, Retry-After, Link, Cache-Control, WWW-Authenticate, CORS, Stet-Outcome. What it writes is sent when it has returned.
	// Where it panics, which goes no further, or writes nothing, the answer is that of Errors. It may be called while the handler runs.
	Render func(w http.ResponseWriter, r *http.Request, p *Problem)
	// AllowOrigins are the origins whose scripts may read the layer's own answers: without it a browser shows them no code and no
	// Retry-After (Fetch standard, section 3.2). Origins are written as browsers send them, such as https://shop.example, or "*"
	// alone for all of them. A listed origin may send credentials; "*" may not. Answers of the handler, and replays of them, carry
	// what the handler wrote; preflights pass to it. Default: none.
	AllowOrigins []string
	ProblemBase  string // of problem types: type = base + code; default [DefaultProblemBase]
	Limits       *Limits
	// Client is the address that a request came from, for [LimitsConfig].UnauthenticatedPerSecond. Default: that of r.RemoteAddr, which
	// behind a proxy is the proxy's.
	Client func(r *http.Request) netip.Addr
}

// Mode says whether the layer acts on a route.
type Mode uint8

const (
	ModeByMethod Mode = iota // keys are required on RequiredMethods, honoured on the other EnabledMethods
	ModeOff                  // everything passes
	ModeShadow               // everything passes, as it would without the layer; what would have been answered is counted beside it
	ModeOptional             // keys are honoured on EnabledMethods
	ModeRequired             // keys are required on EnabledMethods
)

// enforces reports whether a layer in this mode refuses anything.
func (m Mode) enforces() bool { return m != ModeOff && m != ModeShadow }

// Waiting says what a duplicate of a running request gets.
type Waiting uint8

const (
	NoWait   Waiting = iota // 409 at once
	Wait                    // the first request's answer, or 409 after WaitTimeout
	Accepted                // 202 at once
)

// On5xx says what an answer of 500 and above means where the handler made no statement.
type On5xx uint8

const (
	ReplayFailure  On5xx = iota // it is the result, and replayed
	ReleaseFailure              // nothing happened: one retry may run
	UnknownFailure              // it may have happened
)

// OnPanic says what a panic of the handler means. It is always re-panicked.
type OnPanic uint8

const (
	PanicUnknown OnPanic = iota
	PanicRelease         // nothing happened
	PanicReplay          // the result is a 500
)

// OnOversize says what is kept of a response over MaxResponse or MaxHeader.
type OnOversize uint8

const (
	Tombstone OnOversize = iota // that it is done; retries get result-not-retained
	OmitBody                    // status and headers; replays have no body
)

// ReplayConfig shapes replays.
type ReplayConfig struct {
	KeepSetCookie bool     // by default a replay sets no cookies
	DropHeaders   []string // dropped besides those that are never replayed
	Markers       Markers
}

// Markers are the headers that tell a replay.
type Markers uint8

const (
	BothMarkers  Markers = iota // Idempotent-Replayed and Idempotent-Replay
	ReplayedOnly                // Idempotent-Replayed
	ReplayOnly                  // Idempotent-Replay
	NoMarkers
)

// ErrorStyle is the form of the layer's own errors.
type ErrorStyle uint8

const (
	ProblemErrors ErrorStyle = iota // RFC 9457 problem documents
	IETFErrors                      // the same, with the titles of the IETF draft
	StripeErrors                    // Stripe's error object
	PlainErrors                     // {"error": "..."}
)

// Defaults of [Config].
const (
	defaultRoute         = "default"
	defaultMinTTL        = time.Hour
	defaultMaxTTL        = 30 * 24 * time.Hour
	defaultWaitTimeout   = 30 * time.Second
	defaultRetryAfterMax = 30 * time.Second
	defaultMaxBody       = 1 << 20
	defaultMaxResponse   = 1 << 20
	defaultMaxHeader     = 64 << 10
	defaultBodyTimeout   = 30 * time.Second
	defaultKeyHeader     = "Idempotency-Key"
	DefaultProblemBase   = "https://stet-dev.github.io/stet/problems/"
)

// ProfileNames are the names [Profile] takes.
var ProfileNames = []string{"default", "ietf", "stripe", "stripe-v2", "seed-strict", "gateway-compat"}

// Profile returns the Config of a published dialect, to be used as it is or changed further.
func Profile(name string) (Config, error) {
	c := Config{}
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
	c.Route = cmp.Or(c.Route, defaultRoute)
	c.EnabledMethods = orDefault(c.EnabledMethods, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete)
	c.RequiredMethods = orDefault(c.RequiredMethods, http.MethodPost, http.MethodPatch)
	c.NoStoreStatus = orDefault(c.NoStoreStatus, 401, 403, 407, 408, 425, 429)
	c.Policy = inherit(c.Policy, engine)
	c.MinTTL = cmp.Or(c.MinTTL, defaultMinTTL)
	c.MaxTTL = cmp.Or(c.MaxTTL, defaultMaxTTL)
	c.WaitTimeout = cmp.Or(c.WaitTimeout, defaultWaitTimeout)
	c.RetryAfterMax = cmp.Or(c.RetryAfterMax, defaultRetryAfterMax)
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	c.MaxResponse = cmp.Or(c.MaxResponse, defaultMaxResponse)
	c.MaxHeader = cmp.Or(c.MaxHeader, defaultMaxHeader)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, defaultBodyTimeout)
	c.KeyHeader = http.CanonicalHeaderKey(cmp.Or(c.KeyHeader, defaultKeyHeader))
	c.ProblemBase = cmp.Or(c.ProblemBase, DefaultProblemBase)
	if c.Limits == nil {
		c.Limits = NewLimits(LimitsConfig{})
	}
	return c
}

func orDefault[T any](s []T, d ...T) []T {
	if s == nil {
		return d
	}
	return s
}

func inherit(p, from stet.Policy) stet.Policy {
	p.Lease = cmp.Or(p.Lease, from.Lease)
	p.Execution = cmp.Or(p.Execution, from.Execution)
	p.Retain = cmp.Or(p.Retain, from.Retain)
	p.KeepExpired = cmp.Or(p.KeepExpired, from.KeepExpired)
	p.FromCreation = p.FromCreation || from.FromCreation
	p.OnLapse = cmp.Or(p.OnLapse, from.OnLapse)
	return p
}

// Validate names the first setting that cannot be used, and why.
func (c Config) Validate() error {
	if err := c.Policy.Validate(); err != nil {
		return err
	}
	if err := c.Fingerprint.Validate(); err != nil {
		return fmt.Errorf("stethttp: Fingerprint: %w", err)
	}
	if err := validOrigins(c.AllowOrigins); err != nil {
		return fmt.Errorf("stethttp: AllowOrigins: %w", err)
	}
	for name, d := range map[string]time.Duration{"MinTTL": c.MinTTL, "MaxTTL": c.MaxTTL, "WaitTimeout": c.WaitTimeout,
		"RetryAfterMax": c.RetryAfterMax, "MaxRequestAge": c.MaxRequestAge} {
		if d < 0 {
			return fmt.Errorf("stethttp: %s is %s; it cannot be negative", name, d)
		}
	}
	switch {
	case c.MinTTL > 0 && c.MaxTTL > 0 && c.MinTTL > c.MaxTTL:
		return errors.New("stethttp: MinTTL is over MaxTTL")
	case c.Waiting == Accepted && c.Errors == StripeErrors:
		return errors.New("stethttp: Waiting: Accepted cannot be used with StripeErrors; Stripe's clients take what is below 400 for the result")
	case c.MaxBody < 0 || c.MaxResponse < 0 || c.MaxHeader < 0:
		return errors.New("stethttp: MaxBody, MaxResponse and MaxHeader cannot be negative")
	case c.Status.Mismatch != 0 && (c.Status.Mismatch < 400 || c.Status.Mismatch > 499):
		return fmt.Errorf("stethttp: Status.Mismatch is %d; it is the client's error: 400 to 499", c.Status.Mismatch)
	case c.Status.InvalidKey != 0 && (c.Status.InvalidKey < 400 || c.Status.InvalidKey > 499):
		return fmt.Errorf("stethttp: Status.InvalidKey is %d; it is the client's error: 400 to 499", c.Status.InvalidKey)
	}
	for _, m := range c.EnabledMethods {
		if m == "" || m != strings.ToUpper(m) {
			return fmt.Errorf("stethttp: EnabledMethods: %q is no method; methods are upper case", m)
		}
	}
	if i := slices.IndexFunc(c.NoStoreStatus, func(s int) bool { return s < 400 || s > 599 }); i >= 0 {
		return fmt.Errorf("stethttp: NoStoreStatus: %d says that something happened; only 400 to 599 can say it did not", c.NoStoreStatus[i])
	}
	return nil
}
