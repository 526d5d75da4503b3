package config

import (
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/outcome"
	"github.com/stet-dev/stet/stethttp"
)

// beside calls f with each setting that has a counterpart in c, by the tag is, and with that. The
// words of a setting are those of the counterpart's type; of a bool, the tag names the word for
// true.
func (p *Policy) beside(c *stethttp.Config, f func(setting field, other reflect.Value)) {
	settings(reflect.ValueOf(p).Elem(), "", func(s field, _ string, _ reflect.Value) {
		path, ok := s.tag.Lookup("is")
		if !ok {
			return
		}
		other := reflect.ValueOf(c).Elem()
		path, _, _ = strings.Cut(path, "=")
		for name := range strings.SplitSeq(path, ".") {
			other = other.FieldByName(name)
		}
		f(s, other)
	})
}

func (f field) putInto(other reflect.Value) {
	switch words := f.enum(); {
	case f.Kind() == reflect.Map:
		other.Set(reflect.ValueOf(statesOf(f.Interface().(map[int]string))))
	case words == nil:
		other.Set(f.Convert(other.Type()))
	case other.Kind() == reflect.Bool:
		other.SetBool(f.String() == f.wordForTrue())
	default:
		must(other.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(f.String())))
	}
}

func (f field) wordForTrue() string {
	_, word, _ := strings.Cut(f.tag.Get("is"), "=")
	return word
}

func (f field) takeFrom(other reflect.Value) {
	switch words := f.enum(); {
	case f.Kind() == reflect.Map:
		f.Set(reflect.ValueOf(outcome.Words(other.Interface().(map[int]stet.State))))
	case words == nil:
		f.Set(other.Convert(f.Type()))
	case other.Kind() == reflect.Bool:
		f.SetString(f.wordForTrue())
	default:
		text, err := other.Interface().(encoding.TextMarshaler).MarshalText()
		must(err)
		f.SetString(string(text))
	}
}

func statesOf(words map[int]string) map[int]stet.State {
	if words == nil {
		return nil
	}
	states := map[int]stet.State{}
	for status, word := range words {
		states[status] = outcome.States[word]
	}
	return states
}

// profilePolicy is what a profile means: the defaults, and over them what the profile sets.
func profilePolicy(name string) Policy {
	var p Policy
	setDefaults(reflect.ValueOf(&p).Elem())
	c, err := stethttp.Profile(name)
	if err != nil { // reported where the name was given
		return p
	}
	p.Profile = name
	p.beside(&c, func(f field, other reflect.Value) {
		if !other.IsZero() {
			f.takeFrom(other)
		}
	})
	return p
}

// HTTP is a policy in the terms of package stethttp. Its profile brings what no key can say: the
// form of error bodies. The policy is complete: an engine with another policy of its own must not
// fill in what is zero on purpose.
func (p *Policy) HTTP() stethttp.Config {
	c, err := stethttp.Profile(p.Profile)
	if err == nil {
		p.beside(&c, field.putInto)
		c.Key.Pattern, err = p.Key.pattern()
	}
	if err != nil {
		panic("config: an unchecked policy: " + err.Error())
	}
	if c.Policy.Execution == 0 {
		c.Policy.Execution = stet.Never
	}
	if p.OnExpired != "reject" {
		c.Policy.KeepExpired = 0
	}
	return c
}

func (p *Policy) recipe() stet.Recipe {
	var c stethttp.Config
	p.beside(&c, field.putInto)
	return c.Fingerprint
}

// pattern is what the whole key has to match; nil: anything.
func (k *key) pattern() (*regexp.Regexp, error) {
	if k.Pattern == "" {
		return nil, nil
	}
	re, err := regexp.Compile("^(?:" + k.Pattern + ")$")
	if err != nil {
		return nil, fmt.Errorf("key pattern: %w", err)
	}
	return re, nil
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
	if r.Mode != "" {
		must(h.Mode.UnmarshalText([]byte(r.Mode)))
	}
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
		all[i], _ = proxies(s) // checked before
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
	f, _, _ := c.Scope.kind()
	return f
}

// ScopeHeaders are the request headers the scope comes from.
func (c *Config) ScopeHeaders() []string {
	if _, header, _ := c.Scope.kind(); header != "" {
		return []string{header}
	}
	return nil
}

// ScopeText says where the scope comes from, as it is published.
func (c *Config) ScopeText() string {
	_, header, text := c.Scope.kind()
	text += header
	if len(c.Scope.Parts) > 0 {
		text += ", by " + strings.Join(c.Scope.Parts, " and ")
	}
	return text
}

// kind returns how a scope is found, in which header, if in one, and what that is called.
func (s *Scope) kind() (find stethttp.ScopeFunc, header, text string) {
	switch {
	case s.Header != "":
		return stethttp.HeaderScope(s.Header), s.Header, "header "
	case s.APIKey != nil:
		return stethttp.APIKeyScope(s.APIKey.Header), s.APIKey.Header, "API key in "
	case s.ClientCert:
		return stethttp.ClientCertScope, "", "TLS client certificate"
	}
	return stethttp.SingleTenant, "", "single tenant"
}
