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

	"github.com/stet-dev/stet/stethttp"
)

// Config is what a [Gateway] forwards to, and how. Upstream is required; the other zero values are good ones.
type Config struct {
	Upstream *url.URL        // http or https, and a host; no path: paths are forwarded as they came
	Default  stethttp.Config // for requests that no route matches
	Routes   []Route
	Scope    stethttp.ScopeFunc // whose request it is; nil means [stethttp.SingleTenant]

	// ScopeByRoute makes the route a part of the scope, so that a key counts for its route alone: a scope is then what Scope returns, a
	// slash, and the percent-encoded name of the route. What Scope returns may hold slashes; the last one is this.
	ScopeByRoute bool

	StrictCoverage bool        // refuse state-changing requests that no route matches
	UpstreamKey    UpstreamKey // of unmatched requests

	// KeepHeaders are request headers that a Connection field cannot take away, such as the one the scope comes from: who
	// sits between client and gateway could otherwise drop them on the way to the upstream (RFC 9110 section 7.6.1). The
	// key's header and Authorization are always kept.
	KeepHeaders []string

	// TrustedProxies are the addresses from which X-Forwarded-* and Forwarded are taken for true and passed on, with the sender's own
	// address appended. From anybody else they are removed, as any client can write them. Empty: nobody is trusted.
	TrustedProxies []netip.Prefix

	UpstreamTLS *tls.Config // for https upstreams; nil trusts the system's roots

	// UpstreamTimeout is for requests that run unguarded: how long the upstream may take nothing of one and give no header of an
	// answer. Then the client gets 504 execution-timeout. Default 1 min; negative: no limit. An answer that has begun may last, such
	// as a download or a stream of events; but while a [Server] drains, no longer than this. A guarded request has
	// [stet.Policy].Execution.
	UpstreamTimeout time.Duration
	// UpstreamIdleTimeout is how long a connection to the upstream is kept without a request: less long than the upstream keeps it.
	// Where the upstream closes one just as a request is on its way, nobody can tell whether it ran. Default 4 s, under the 5 s of
	// the most impatient common servers. An upstream that answers Keep-Alive: timeout=N (RFC 2068 section 19.7.1.1) lowers it, so
	// that a second is left, or of one second half.
	UpstreamIdleTimeout time.Duration

	Log *slog.Logger // what went wrong with the upstream; nil logs nothing
}

// Defaults of [Config].
const (
	defaultUpstreamTimeout     = time.Minute
	defaultUpstreamIdleTimeout = 4 * time.Second
)

// Route is a part of the API with its own rules.
type Route struct {
	// Match is a pattern of [http.ServeMux], such as "POST /v1/payments/{id}". Patterns are only matched, and the most
	// specific one wins: nothing is redirected. A path is matched in its clean form, so that //v1//payments has the rules of
	// /v1/payments, and is forwarded as it came.
	Match       string
	Config      stethttp.Config // Route is Match if it is empty
	UpstreamKey UpstreamKey

	// MatchEncoded lets the pattern also match what a path is once it is decoded, as often as that changes anything: for an
	// upstream to which %2F is a slash. A path with percent-encoding is looked up decoded first, among all routes; the most specific
	// one is its route if it has MatchEncoded, else the path is looked up as it was sent. It is forwarded as it came in any case.
	MatchEncoded bool
}

// UpstreamKey says how the upstream gets the idempotency key.
type UpstreamKey uint8

const (
	ForwardString  UpstreamKey = iota // as an RFC 9651 String, however the client spelled it; an opaque key as it came
	ForwardBare                       // without quotes, where it can be written so; an opaque key as it came
	ForwardNothing                    // not at all
)

func (c *Config) validate() error {
	switch u := c.Upstream; {
	case u == nil:
		return errors.New("gateway: Upstream is missing")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("gateway: Upstream %s: it has to be http://host or https://host", u.Redacted())
	case u.User != nil:
		return errors.New("gateway: Upstream holds a password; credentials are the clients'")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return fmt.Errorf("gateway: Upstream %s: it cannot have a path or a query; requests are forwarded with their own", u)
	case slices.ContainsFunc(c.TrustedProxies, func(p netip.Prefix) bool { return !p.IsValid() || p.Addr().Is4In6() }):
		return errors.New("gateway: TrustedProxies holds what is no range of IPv4 or IPv6 addresses")
	case c.UpstreamKey > ForwardNothing:
		return fmt.Errorf("gateway: UpstreamKey is %d, which is no UpstreamKey", c.UpstreamKey)
	case c.UpstreamIdleTimeout < 0:
		return errors.New("gateway: UpstreamIdleTimeout is negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Scope == nil {
		c.Scope = stethttp.SingleTenant
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
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
