package gateway

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/stethttp"
)

// Config says where a [Gateway] forwards to, and how. Upstream is required; the zero values of the
// other fields are ready to use.
type Config struct {
	// Upstream is where requests go: http, https, or h2c for HTTP/2 without TLS, and a host; no path,
	// because paths are forwarded as they came.
	Upstream *url.URL
	// Default is how requests are guarded that no route matches. In it, and in Routes, the default
	// of StatusOutcome is that 502, 503 and 504 are unknown, as long as On5xx is ReplayFailure:
	// they may be the page of a proxy in between.
	Default stethttp.Config
	Routes  []Route            // parts of the API with rules of their own; default none
	Scope   stethttp.ScopeFunc // the scope of a request's key; default [stethttp.SingleTenant]

	// ScopeByRoute makes the route a part of the scope, so that a key counts for its route alone.
	// The scope is then what Scope returns, a slash, and the percent-encoded name of the route.
	// What Scope returns may contain slashes; the last slash is this one.
	ScopeByRoute bool
	// ScopeByHost makes the host that a request is for a part of the scope, likewise, so that a key
	// counts for that host alone. With both, the host comes before the route.
	ScopeByHost bool

	StrictCoverage bool        // refuse state-changing requests that no route matches (route-not-covered)
	UpstreamKey    UpstreamKey // how unmatched requests carry the key; default [ForwardString]

	// KeepHeaders are request headers that a Connection field cannot remove, such as the one that
	// the scope comes from. Otherwise a party between client and gateway could drop them on the way
	// to the upstream (RFC 9110 section 7.6.1). The key's header and Authorization are always kept.
	KeepHeaders []string

	// TrustedProxies are the addresses whose X-Forwarded-* and Forwarded fields are believed and
	// passed on, with the sender's own address appended. From other addresses these fields are
	// removed, because any client can write them. Default: no address is trusted.
	TrustedProxies []netip.Prefix

	EmptyBody   EmptyBody   // how a guarded request without a body is sent; default [EmptyChunked], and [EmptyLength] once the upstream has answered 411
	UpstreamTLS *tls.Config // for https upstreams; default: the system's roots are trusted

	// UpstreamTimeout limits unguarded requests: if the upstream neither takes anything of the
	// request nor begins an answer for this long, the client gets 504 execution-timeout. Default 1
	// min; [stet.Never]: no limit. An answer that has begun may last, such as a download or an
	// event stream, but no longer than this once a [Server] drains. The client of a guarded request
	// waits for [stet.Policy].Execution, and the gateway for LateAnswer longer.
	UpstreamTimeout time.Duration
	// UpstreamIdleTimeout is how long a connection to the upstream is kept without a request. It
	// has to be less than the upstream keeps it: if the upstream closes one just as a request is on
	// its way, it is unknown whether the request ran. Default 4 s, below the 5 s of common servers
	// with the shortest limit. An upstream that answers with Keep-Alive: timeout=N (RFC 2068
	// section 19.7.1.1) lowers it to N − 1 s, or to half a second if N is 1.
	UpstreamIdleTimeout time.Duration
	// LateAnswer is how long the gateway reads on for the answer to a guarded request whose time
	// (see [stet.Policy].Execution) is over: that is the result whenever it comes. Until then the
	// exchange has its connection and its memory. Default: the Lease of the request's policy.
	LateAnswer time.Duration

	Log *slog.Logger // receives failures of the upstream; default: nothing is logged
}

var configBounds = bounds.For[Config](
	bounds.Free("Default", "stethttp checks it when its guard is made"),
	bounds.Free("Routes", "each is looked at when it is compiled, and the error names it"),
	bounds.Number("UpstreamKey", 0, int64(ForwardNothing)),
	bounds.Number("EmptyBody", 0, int64(EmptyLength)),
	bounds.Duration("UpstreamTimeout", bounds.Short, bounds.Long).OrDefault().Or("stet.Never", stet.Never),
	bounds.Duration("UpstreamIdleTimeout", bounds.Short, bounds.Long).OrDefault(),
	bounds.Duration("LateAnswer", bounds.Short, bounds.Long).OrDefault(),
)

// schemeH2C is of an upstream that speaks HTTP/2 without TLS, as it knows beforehand (RFC 9113
// section 3.3).
const schemeH2C = "h2c"

// These are the defaults of [Config].
const (
	defaultUpstreamTimeout     = time.Minute
	defaultUpstreamIdleTimeout = 4 * time.Second
)

// Route is a part of the API with its own rules.
type Route struct {
	// Match is a pattern of [http.ServeMux], such as "POST /v1/payments/{id}". Patterns are only
	// matched, and the most specific one wins; nothing is redirected. A path is matched in its
	// clean form, so that //v1//payments has the rules of /v1/payments, and is forwarded as it
	// came. A host in the pattern has no port. It is compared in one form of its spellings: lower
	// case, no dot at the end. The host is then a part of the fingerprint ([stet.Recipe].Host), so
	// that two hosts behind one pattern without one share results, and a host with a pattern of its
	// own does not.
	Match       string
	Config      stethttp.Config // how its requests are guarded; an empty Config.Route becomes Match
	UpstreamKey UpstreamKey     // how its requests carry the key; default [ForwardString]

	// MatchEncoded makes the pattern also match the fully percent-decoded path, for an upstream
	// that takes %2F for a slash. A path with percent-encoding is first looked up decoded, among
	// all routes. If the most specific match has MatchEncoded, it is the route; otherwise the path
	// is looked up as it was sent. It is forwarded as it came in any case.
	MatchEncoded bool
}

// UpstreamKey says how the upstream gets the idempotency key.
type UpstreamKey uint8

const (
	ForwardString  UpstreamKey = iota // as an RFC 9651 String, whatever the client's spelling; an opaque key as it came
	ForwardBare                       // without quotes if it can be written so; an opaque key as it came
	ForwardNothing                    // not at all
)

func (c *Config) validate() error {
	switch u := c.Upstream; {
	case u == nil:
		return errors.New("gateway: Upstream is missing")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != schemeH2C, u.Host == "":
		return fmt.Errorf("gateway: Upstream %s: write it as http://host, https://host or h2c://host", u.Redacted())
	case u.User != nil:
		return errors.New("gateway: Upstream holds a password; remove it, because clients send their own credentials")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return fmt.Errorf("gateway: Upstream %s: remove path and query; requests are forwarded with their own", u)
	case slices.ContainsFunc(c.TrustedProxies, func(p netip.Prefix) bool { return !p.IsValid() || p.Addr().Is4In6() }):
		return errors.New("gateway: TrustedProxies holds an invalid range; use IPv4 or IPv6 prefixes")
	}
	return configBounds.Check(c)
}

func (c Config) withDefaults() Config {
	if c.Scope == nil {
		c.Scope = stethttp.SingleTenant
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.UpstreamTimeout = cmp.Or(c.UpstreamTimeout, defaultUpstreamTimeout)
	c.UpstreamIdleTimeout = cmp.Or(c.UpstreamIdleTimeout, defaultUpstreamIdleTimeout)
	if c.Default.Limits == nil {
		c.Default.Limits = stethttp.NewLimits(stethttp.LimitsConfig{})
	}
	keep := []string{"Authorization"}
	for _, name := range c.KeepHeaders {
		keep = append(keep, http.CanonicalHeaderKey(name))
	}
	c.KeepHeaders = keep
	return c
}
