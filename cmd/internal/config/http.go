package config

import (
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// The words of a setting, in the order of the constants they stand for in stet and stethttp.
var (
	waitings   = words("wait_policy")
	lapses     = words("on_lease_expiry")
	failures   = words("on_5xx")
	panics     = words("on_panic")
	oversizes  = words("on_oversize")
	syntaxes   = words("key", "syntax")
	bodies     = words("fingerprint", "body")
	markers    = words("replay", "markers")
	routeModes = append([]string{""}, field{tag: reflect.TypeFor[Route]().Field(1).Tag}.enum()...)
)

func words(path ...string) []string {
	f := field{Value: reflect.ValueOf(Policy{})}
	for _, key := range path {
		f, _ = member(f.Value, key)
	}
	return f.enum()
}

func number[T ~uint8](words []string, s string) T { return T(slices.Index(words, s)) }

// profilePolicy is what a profile means: the defaults, and over them what the profile sets.
func profilePolicy(name string) Policy {
	var p Policy
	setDefaults(reflect.ValueOf(&p).Elem())
	c, err := stethttp.Profile(name)
	if err != nil { // reported where the name was given
		return p
	}
	p.Profile = name
	over(&p.EnabledMethods, c.EnabledMethods)
	over(&p.RequiredMethods, c.RequiredMethods)
	over(&p.NoStoreStatus, c.NoStoreStatus)
	if c.Policy.Retain != 0 {
		p.DefaultTTL = Seconds(c.Policy.Retain)
	}
	if c.Status.Mismatch != 0 {
		p.Status.Mismatch = c.Status.Mismatch
	}
	if c.Status.InvalidKey != 0 {
		p.Status.InvalidKey = c.Status.InvalidKey
	}
	if c.Key.MaxLen != 0 {
		p.Key.MaxLen = c.Key.MaxLen
	}
	p.OnLeaseExpiry = lapses[c.Policy.OnLapse]
	p.WaitPolicy = waitings[c.Waiting]
	p.On5xx = failures[c.On5xx]
	p.OnPanic = panics[c.OnPanic]
	p.OnOversize = oversizes[c.OnOversize]
	p.Key.Syntax = syntaxes[c.Key.Syntax]
	p.Fingerprint.Body = bodies[c.Fingerprint.Body]
	over(&p.Fingerprint.Headers, c.Fingerprint.Headers)
	p.Replay.Markers = markers[c.Replay.Markers]
	return p
}

func over[T any](to *[]T, from []T) {
	if from != nil {
		*to = from
	}
}

// HTTP is a policy in the terms of package stethttp. Its profile brings what no key can say: the form of error bodies.
func (p *Policy) HTTP() stethttp.Config {
	c, err := stethttp.Profile(p.Profile)
	if err != nil {
		panic("config: an unchecked policy: " + err.Error())
	}
	pattern, err := p.Key.pattern()
	if err != nil {
		panic("config: an unchecked policy: " + err.Error())
	}
	c.EnabledMethods, c.RequiredMethods = orEmpty(p.EnabledMethods), orEmpty(p.RequiredMethods)
	c.RefuseOverride = p.MethodOverride == "refuse"
	c.Policy = p.engine()
	c.MinTTL, c.MaxTTL = p.MinTTL.Duration(), p.MaxTTL.Duration()
	c.Waiting = number[stethttp.Waiting](waitings, p.WaitPolicy)
	c.WaitTimeout, c.RetryAfterMax = p.WaitTimeout.Duration(), p.RetryAfterMax.Duration()
	c.On5xx = number[stethttp.On5xx](failures, p.On5xx)
	c.OnPanic = number[stethttp.OnPanic](panics, p.OnPanic)
	c.OnOversize = number[stethttp.OnOversize](oversizes, p.OnOversize)
	c.Withhold = p.OnCompleteFailure == "withhold"
	c.FailOpen = p.FailMode == "open"
	c.MaxBody, c.MaxResponse, c.MaxHeader = p.MaxBodyBytes, p.MaxResponseBytes, p.MaxHeaderBytes
	c.MaxRequestAge, c.EarlyData = p.MaxRequestAge.Duration(), p.EarlyData
	c.NoStoreStatus = orEmpty(p.NoStoreStatus)
	c.Status.Mismatch, c.Status.InvalidKey = p.Status.Mismatch, p.Status.InvalidKey
	c.KeyHeader = p.Key.Header
	c.Key = stet.KeyRule{Syntax: number[stet.Syntax](syntaxes, p.Key.Syntax), MinLen: p.Key.MinLen, MaxLen: p.Key.MaxLen, Pattern: pattern}
	c.Fingerprint = p.Fingerprint.recipe()
	c.Replay = stethttp.ReplayConfig{KeepSetCookie: p.Replay.KeepSetCookie, DropHeaders: p.Replay.DropHeaders,
		Markers: number[stethttp.Markers](markers, p.Replay.Markers)}
	return c
}

// engine is the part that the engine acts on. It is complete: an engine with another policy of its own must not fill in
// what is zero on purpose, so a gateway's engine has none.
func (p *Policy) engine() stet.Policy {
	e := stet.Policy{Lease: p.Lease.Duration(), Execution: p.ExecutionTimeout.Duration()}
	if e.Execution == 0 {
		e.Execution = stet.Never
	}
	e.Retain, e.FromCreation = p.DefaultTTL.Duration(), p.TTLFrom == "creation"
	e.OnLapse = number[stet.LapseRule](lapses, p.OnLeaseExpiry)
	if p.OnExpired == "reject" {
		e.KeepExpired = p.KeepExpired.Duration()
	}
	return e
}

func (f *Fingerprint) recipe() stet.Recipe {
	return stet.Recipe{Body: number[stet.BodyMode](bodies, f.Body), Fields: f.Fields, Exclude: f.Exclude, Headers: f.Headers, Decode: f.Decode}
}

func (k *Key) pattern() (*regexp.Regexp, error) {
	if k.Pattern == "" {
		return nil, nil
	}
	return stet.KeyPattern(k.Pattern)
}

// orEmpty: an empty list is a statement, where nil would be the default.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// HTTP is the policy of requests that no route matches.
func (c *Config) HTTP(limits *stethttp.Limits) stethttp.Config {
	return c.complete(c.Policy.HTTP(), limits)
}

// RouteHTTP is the policy of route i.
func (c *Config) RouteHTTP(i int, limits *stethttp.Limits) stethttp.Config {
	r := &c.Routes[i]
	h := c.complete(r.Policy.HTTP(), limits)
	h.Route = r.Match
	h.Mode = number[stethttp.Mode](routeModes, r.Mode)
	return h
}

func (c *Config) complete(h stethttp.Config, limits *stethttp.Limits) stethttp.Config {
	h.BodyTimeout, h.ProblemBase, h.Limits = c.ReadTimeout.Duration(), c.ProblemBase, limits
	h.AllowOrigins = c.CORS.AllowOrigins
	return h
}

// LimitsConfig is the limits section.
func (c *Config) LimitsConfig() stethttp.LimitsConfig {
	l := c.Limits
	return stethttp.LimitsConfig{MaxBufferedBytes: l.MaxBufferedBytes, SharePerScope: l.SharePerScope,
		MaxTargetBytes: l.MaxTargetBytes, MaxScopeBytes: l.MaxScopeBytes, NewKeysPerSecond: l.NewKeysPerSecond, Burst: l.Burst,
		LookupsPerSecond: l.LookupsPerSecond, MaxKeysPerScope: l.MaxKeysPerScope, MaxKeys: l.MaxKeys,
		UnauthenticatedPerSecond: l.Unauthenticated, Replicas: c.Replicas}
}

// Proxies are the trusted proxies.
func (c *Config) Proxies() []netip.Prefix {
	all := make([]netip.Prefix, len(c.TrustedProxies))
	for i, s := range c.TrustedProxies {
		var err error
		if all[i], err = proxies(s); err != nil {
			panic("config: an unchecked proxy: " + err.Error())
		}
	}
	return all
}

// proxies reads an address, or a range of them.
func proxies(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Unmap().WithZone("").Prefix(addr.Unmap().BitLen())
	}
	return netip.ParsePrefix(s)
}

// ScopeFunc is the scope section.
func (c *Config) ScopeFunc() stethttp.ScopeFunc {
	switch {
	case c.Scope.Header != "":
		return stethttp.HeaderScope(c.Scope.Header)
	case c.Scope.APIKey != nil:
		return stethttp.APIKeyScope(c.Scope.APIKey.Header)
	case c.Scope.ClientCert:
		return stethttp.ClientCertScope
	}
	return stethttp.SingleTenant
}

// ScopeHeaders are the request headers the scope comes from.
func (c *Config) ScopeHeaders() []string {
	switch {
	case c.Scope.Header != "":
		return []string{c.Scope.Header}
	case c.Scope.APIKey != nil:
		return []string{c.Scope.APIKey.Header}
	}
	return nil
}

// ScopeText says where the scope comes from, as it is published.
func (c *Config) ScopeText() string {
	text := c.scopeText()
	if len(c.Scope.Parts) > 0 {
		text += ", by " + strings.Join(c.Scope.Parts, " and ")
	}
	return text
}

func (c *Config) scopeText() string {
	switch {
	case c.Scope.Header != "":
		return "header " + c.Scope.Header
	case c.Scope.APIKey != nil:
		return "API key in " + c.Scope.APIKey.Header
	case c.Scope.ClientCert:
		return "TLS client certificate"
	}
	return "single tenant"
}
