package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/internal/canon"
	"github.com/stet-dev/stet/internal/door"
	"github.com/stet-dev/stet/internal/spell"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
)

// checker looks for what no single value shows.
type checker struct {
	*Config
	errs Errors
}

func (c *Config) check() Errors {
	k := &checker{Config: c}
	k.later(reflect.ValueOf(&c.File).Elem(), "")
	k.listeners()
	k.store()
	k.scope()
	k.policy(&c.Policy, "policy", "policy")
	k.routes()
	k.reconcile()
	return k.errs
}

func (k *checker) fail(path, format string, args ...any) {
	k.errs.add(k.given.of(path), path, format, args...)
}

// refuse fails if something is wrong.
func (k *checker) refuse(wrong bool, path, format string, args ...any) {
	if wrong {
		k.fail(path, format, args...)
	}
}

// later refuses what this build knows and cannot do: a setting that is silently ignored is worse
// than none.
func (k *checker) later(v reflect.Value, path string) {
	for f := range fields(v) {
		name, untouched := join(path, f.tag.Get("yaml")), field{reflect.New(f.Type()).Elem(), f.tag}
		untouched.setDefault()
		switch what, later := f.tag.Lookup("later"); {
		case later && !reflect.DeepEqual(f.Interface(), untouched.Interface()):
			k.fail(name, "%s: %s", dsn.ErrLater, what)
		case !later && f.kind() == section:
			k.later(f.Value, name)
		}
	}
}

func (k *checker) listeners() {
	k.address("listen", k.Listen)
	k.admin()
	if k.Upstream != "" {
		k.upstream()
	}
	for i, s := range k.TrustedProxies {
		p, err := proxies(s)
		k.refuse(err != nil || p.Addr().Is4In6(), fmt.Sprintf("trusted_proxies[%d]", i),
			"%q is no address and no range of them, such as 10.0.0.7 or 10.0.0.0/8", s)
	}
	u, err := url.Parse(k.ProblemBase)
	k.refuse(err != nil || !u.IsAbs(), "problem_base",
		"%q is not an absolute URI, such as https://errors.example.com/", k.ProblemBase)
	err = stethttp.Config{AllowOrigins: k.CORS.AllowOrigins}.Validate()
	k.refuse(err != nil, "cors.allow_origins", "%s", errors.Unwrap(err))
	k.refuse(k.TLS != nil && k.H2C, "h2c", "h2c is HTTP/2 without TLS; with tls, HTTP/2 is there anyway")
}

// admin checks the operators' listeners, and that connections from other machines need a token.
func (k *checker) admin() {
	switch {
	case k.Admin.Listen != "":
		k.address("admin.listen", k.Admin.Listen)
	case k.Admin.Socket == "":
		k.fail("admin.listen", "operators have no way in: give an address such as 127.0.0.1:8081, or admin.socket")
	case k.Admin.TLS != nil:
		k.fail("admin.tls", "it is for admin.listen, which is empty: a socket has no TLS")
	}
	host, _, err := net.SplitHostPort(k.Admin.Listen)
	k.refuse(err == nil && !loopback(host) && k.Admin.TokenFile == "" && k.Admin.TokensFile == "", "admin.listen",
		"%s can be reached from elsewhere: that needs a token (admin.token_file), or listen on 127.0.0.1", k.Admin.Listen)
	k.refuse(k.Admin.TokenFile != "" && k.Admin.TokensFile != "", "admin.tokens_file",
		"give token_file or tokens_file, not both")
	const longest = 60
	n := utf8.RuneCountInString(k.Admin.Title)
	k.refuse(n > longest, "admin.title", "it has %d characters, and %d fit on a page", n, longest)
	if t := k.Console.TraceURL; t != "" {
		const place = "{trace_id}"
		u, err := url.Parse(strings.ReplaceAll(t, place, "0"))
		k.refuse(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
			!strings.Contains(t, place), "console.trace_url",
			"%q is not the URL of a page with {trace_id} in it, such as https://traces.example/{trace_id}", redactURL(t))
	}
}

func (k *checker) upstream() {
	u, err := url.Parse(k.Upstream)
	switch {
	case err != nil || u.Host == "" || DefaultPort(u.Scheme) == "":
		k.fail("upstream", "%q is not the URL of a server, such as http://127.0.0.1:3000, https://api.internal, or h2c://127.0.0.1:50051 for HTTP/2 without TLS", redact(k.Upstream))
	case k.isItself(u):
		k.fail("upstream", "it is the address at which this gateway listens (listen), so that requests would go round in circles: give the API's own")
	case u.User != nil || strings.TrimRight(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		k.fail("upstream", "it has a scheme and a host, nothing more: requests are forwarded with their own paths and queries")
	}
}

// DefaultPort is the port of an upstream without one; "" for a scheme that no upstream has.
func DefaultPort(scheme string) string { return defaultPorts[scheme] }

var defaultPorts = map[string]string{"http": "80", "https": "443", "h2c": "80"}

// isItself reports whether the upstream is the address that clients connect to.
func (k *checker) isItself(u *url.URL) bool {
	port := cmp.Or(u.Port(), DefaultPort(u.Scheme))
	host, own, err := net.SplitHostPort(k.Listen)
	return err == nil && own == port && own != "0" && meets(host, u.Hostname())
}

// meets reports whether a connection to a host of this machine reaches a listener, as far as the
// names tell.
func meets(listens, host string) bool {
	every := func(s string) bool {
		addr, err := netip.ParseAddr(s)
		return s == "" || err == nil && addr.IsUnspecified()
	}
	named := listens == "localhost" || host == "localhost"
	return strings.EqualFold(listens, host) || (every(listens) || every(host) || named) && (loopback(listens) || every(listens)) && (loopback(host) || every(host))
}

func (k *checker) address(path, s string) {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	k.refuse(err != nil, path, "%q is not HOST:PORT; :8080 is every address of this machine, port 0 a free one", redact(s))
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

func (k *checker) store() {
	d, err := dsn.Parse(k.Store.DSN)
	if err != nil {
		k.fail("store.dsn", "%s", err)
		return
	}
	if k.Store.ListenDSN != "" {
		listen, err := dsn.Parse(k.Store.ListenDSN)
		k.refuse(err != nil || listen.Scheme != "postgres" || d.Scheme != "postgres", "store.listen_dsn",
			"it is the address of the same Postgres as in store.dsn, without the pooler between")
	}
	k.refuse(k.Replicas > 1 && !d.Shared(), "replicas",
		"%d gateways cannot share a %s store: its records live in one process, or on one host", k.Replicas, d.Scheme)
	switch c, err := dsn.ParseCache(k.Store.Cache, d); {
	case err != nil:
		k.fail("store.cache", "%s", err)
	case c != nil && c.Same(d):
		where := "database; give it another, as in redis://HOST:6379/1"
		if strings.HasSuffix(d.Scheme, "+cluster") {
			where = "cluster; give it a server of its own"
		}
		k.fail("store.cache", "it is the store's own %s", where)
	}
	k.refuse(k.Store.EncryptionAccept && k.Store.EncryptionKeysFile == "", "store.encryption_accept_plain",
		"without store.encryption_keys_file everything is plain")
	for i, profile := range k.profiles {
		if profile == "seed-strict" && d.Persistent() && k.Store.EncryptionKeysFile == "" {
			path := "policy.profile"
			if i >= 0 && k.given.given(fmt.Sprintf("routes[%d].policy.profile", i)) {
				path = fmt.Sprintf("routes[%d].policy.profile", i)
			} else if i >= 0 {
				continue // it is the file's, and said once
			}
			k.fail(path, "seed-strict keeps nothing unencrypted: %s needs store.encryption_keys_file, or use memory:", d.Scheme+":")
		}
	}
}

func (k *checker) reconcile() {
	c := &k.Reconcile
	if err := c.Probe.checkStatus(); err != nil {
		k.fail("reconcile.probe.respond.status", "%s", err)
	}
	if c.Probe.URL != "" {
		err := reconcile.Probe{URL: c.Probe.URL}.Validate()
		k.refuse(err != nil, "reconcile.probe.url", "%s", err)
		last := reconcile.LastProbe(c.MaxProbes)
		k.refuse(c.Probe.Settle.Duration() > last, k.set("reconcile.probe.settle_s", "reconcile.max_probes"),
			"settle_s is %s, and the last of max_probes: %d comes %s s after the first: a missing one would never be proof; "+
				"raise reconcile.max_probes, lower reconcile.probe.settle_s, or let it be 0, which says never",
			c.Probe.Settle, c.MaxProbes, Seconds(last))
	}
	if at := c.Webhook.Listen; at != "" {
		k.address("reconcile.webhook.listen", at)
		k.refuse(c.Webhook.SecretFile == "", "reconcile.webhook.listen",
			"a webhook needs a secret: give reconcile.webhook.secret_file")
	}
}

func (k *checker) scope() {
	s := &k.Scope
	if set := s.ways(); len(set) > 1 {
		k.fail("scope."+set[1], "a request has one scope: give one of %s", strings.Join(set, ", "))
	}
	if s.Header != "" {
		k.header("scope.header", s.Header)
		k.ownHeader("scope.header", s.Header)
		k.refuse(door.HoldsCredential(door.Name(s.Header)), "scope.header",
			"scopes are stored, listed and logged as they are, and %s holds a credential: take the scope from what stays the same, such as a header "+
				"X-Tenant-Id that your proxy sets; or, only if callers keep their API keys for good, write scope: { api_key: { header: %[1]s } }, "+
				"which keeps a hash: a retry with a renewed credential runs again", s.Header)
	}
	if s.APIKey != nil {
		form := door.Name(s.APIKey.Header)
		k.header("scope.api_key.header", s.APIKey.Header)
		k.refuse(form == "Cookie", "scope.api_key.header", "cookies change from one answer to the next, and a retry with another one would run again; "+
			"take the scope from what stays the same, such as a header X-Tenant-Id that your proxy sets")
		if !door.HoldsCredential(form) {
			k.ownHeader("scope.api_key.header", s.APIKey.Header)
		}
	}
	k.refuse(s.ClientCert && (k.TLS == nil || k.TLS.ClientCAFile == ""), "scope.client_cert",
		"it needs tls.client_ca_file; without it, client certificates are not verified")
}

// ways are the keys of the section that say whose a request is.
func (s *Scope) ways() (set []string) {
	for f := range fields(reflect.ValueOf(s).Elem()) {
		if key := f.tag.Get("yaml"); key != "parts" && !f.IsZero() {
			set = append(set, key)
		}
	}
	slices.Sort(set)
	return set
}

// Unscoped reports that nothing is said of whose requests are.
func (c *Config) Unscoped() bool { return len(c.Scope.ways()) == 0 }

// Warnings are what a gateway runs with and is probably not meant.
func (c *Config) Warnings() (all []*Error) {
	if c.Unscoped() {
		all = append(all, c.Fault("scope", "no scope is set, so that all callers share one bucket of keys, and one who sends another's key and request gets "+
			"the other's answer: say whose a request is, as in scope: { header: X-Tenant-Id }, or that it is always the same, scope: { single_tenant: true }"))
	}
	settings(reflect.ValueOf(&c.File).Elem(), "", func(f field, path string, _ reflect.Value) {
		if _, public := f.tag.Lookup("public"); public || f.tag.Get("file") == "" || f.String() == "" {
			return
		}
		if info, err := os.Stat(f.String()); err == nil {
			if err := exposed(f.String(), info, othersRead); err != nil {
				all = append(all, c.Fault(path, "%s", err))
			}
		}
	})
	return all
}

// ownHeader refuses a header for the scope that says something else, or the key.
func (k *checker) ownHeader(path, name string) {
	if err := (stethttp.Config{KeyHeader: name}).Validate(); err != nil && canon.IsToken(name) && !door.HoldsCredential(door.Name(name)) {
		_, why, _ := strings.Cut(err.Error(), "KeyHeader: ")
		k.fail(path, "%s", strings.Replace(why, "Idempotency-Key", "X-Tenant-Id", 1))
	}
	k.refuse(door.Name(name) == door.Name(k.Policy.Key.Header), path,
		"it holds the key, which a caller makes up: it cannot say whose the key is; use another header, such as X-Tenant-Id")
}

func (k *checker) header(path, name string) {
	k.refuse(!canon.IsToken(name), path, "%q is not the name of a header", name)
}

// policy checks one effective policy. A route's value may come from the file's policy; then its
// error is said there.
func (k *checker) policy(p *Policy, own, file string) {
	at := func(key string) string {
		if own != file && !k.given.given(own+"."+key) {
			return file + "." + key
		}
		return own + "." + key
	}
	k.refuse(p.MinTTL > p.MaxTTL, k.set(at("max_ttl_s"), at("min_ttl_s")),
		"min_ttl_s is %s and max_ttl_s is %s: no hint could be granted", p.MinTTL, p.MaxTTL)
	k.refuse(p.Key.MinLen > p.Key.MaxLen, k.set(at("key.max_len"), at("key.min_len")),
		"key.min_len is %d and key.max_len is %d: no key could be accepted", p.Key.MinLen, p.Key.MaxLen)
	form, err := stethttp.Profile(p.Profile)
	k.refuse(err == nil && form.Errors == stethttp.StripeErrors && p.WaitPolicy == "accepted",
		k.set(at("wait_policy"), at("profile")), "accepted answers 202, and the clients of profile %s take an answer "+
			"below 400 for the result: wait or no-wait", p.Profile)
	_, err = p.Key.pattern()
	k.refuse(err != nil, at("key.pattern"), "%s", err)
	k.header(at("key.header"), p.Key.Header)
	if err := (stethttp.Config{KeyHeader: p.Key.Header}).Validate(); err != nil && canon.IsToken(p.Key.Header) {
		k.fail(at("key.header"), "%s", strings.TrimPrefix(err.Error(), "stethttp: KeyHeader: "))
	}
	if err := p.recipe().Validate(); err != nil {
		k.fail(k.set(at("fingerprint"), at("fingerprint.body")), "%s", strings.TrimPrefix(err.Error(), "recipe: "))
	}
	if p.TrustHeader != "" {
		k.header(at("trust_header"), p.TrustHeader)
	}
	for _, name := range p.Replay.DropHeaders {
		k.header(at("replay.drop_headers"), name)
	}
	for _, m := range slices.Concat(p.EnabledMethods, p.RequiredMethods) {
		if !canon.IsToken(m) || m != strings.ToUpper(m) {
			k.fail(at("enabled_methods"), "%q is not a method; methods are upper case, such as POST", m)
		} else if hint := spell.Hint(m, registered); hint != "" && !slices.Contains(registered, m) {
			k.fail(at("enabled_methods"), "there is no method %s%s", m, hint)
		}
	}
	for _, m := range p.RequiredMethods {
		k.refuse(k.given.given(at("required_methods")) && !slices.Contains(p.EnabledMethods, m), at("required_methods"),
			"%s is not in enabled_methods, so it always passes: enable it or do not require it", m)
	}
}

// set returns the first of two settings that was given.
func (k *checker) set(a, b string) string {
	if k.given.given(a) {
		return a
	}
	return b
}

func (k *checker) routes() {
	mux := http.NewServeMux()
	for i := range k.Routes {
		path := fmt.Sprintf("routes[%d]", i)
		form, _, unusable := door.Pattern(k.Routes[i].Match)
		if unusable == nil {
			k.Routes[i].Match = form // two spellings of a host are one route
		}
		if err := register(mux, k.Routes[i].Match); err != nil {
			k.fail(path+".match", "%s", k.conflict(i, err))
			continue
		}
		if why := k.unreachable(k.Routes[i].Match, &k.Routes[i].Policy); why != "" {
			k.fail(path+".match", "no request matches %q: %s", k.Routes[i].Match, why)
		} else if unusable != nil {
			k.fail(path+".match", "no request matches %q: %s", k.Routes[i].Match, unusable)
		} else if why := idle(&k.Routes[i]); why != "" {
			k.fail(path+".mode", "%s", why)
		}
		k.policy(&k.Routes[i].Policy, path+".policy", "policy")
	}
	k.once()
}

// conflict says why route i could not be registered: because of itself, or because of an earlier
// one.
func (k *checker) conflict(i int, err error) string {
	match := k.Routes[i].Match
	for j := range i {
		mux := http.NewServeMux()
		if register(mux, k.Routes[j].Match) == nil && register(mux, match) != nil && register(http.NewServeMux(), match) == nil {
			first := k.given.of(fmt.Sprintf("routes[%d].match", j))
			return fmt.Sprintf("%q and %q (line %d) match the same requests, and neither is more specific", match, k.Routes[j].Match, first.Line)
		}
	}
	if method, path, _ := strings.Cut(match, " "); !strings.Contains(match, "/") {
		return fmt.Sprintf("%q is not a pattern: a path begins with a slash, as in %s /%s", match, method, path)
	}
	return fmt.Sprintf("%q is not a pattern: %s", match, reason(err))
}

// once drops repetitions: what is wrong with the file's policy is wrong with every route that has
// it.
func (k *checker) once() {
	seen := map[Error]bool{}
	k.errs = slices.DeleteFunc(k.errs, func(e *Error) bool {
		twice := seen[*e]
		seen[*e] = true
		return twice
	})
}

// register tries a pattern as the gateway will use it. ServeMux panics where it cannot.
func register(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// reason is the end of what ServeMux says: `parsing "x": at offset 0: ...`.
func reason(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[i+2:]
	}
	return text
}
