package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/stet-dev/stet"
)

// principal is who asks.
type principal struct {
	name   string
	role   Role
	scopes []string // as in [Token]
}

// allows reports whether what is in the scope exists for p. What belongs to no scope, such as a refused login, has the empty one.
func (p principal) allows(s stet.Scope) bool {
	return !p.bound() || slices.ContainsFunc(p.scopes, func(bound string) bool {
		if prefix, more := strings.CutSuffix(bound, "*"); more {
			return strings.HasPrefix(string(s), prefix) && s != ""
		}
		return bound == string(s)
	})
}

// bound reports whether p may see some scopes only.
func (p principal) bound() bool { return len(p.scopes) > 0 }

// only is the one scope that p may see, if it is known by name: a list is then asked for it alone, and needs no filter.
func (p principal) only() (stet.Scope, bool) {
	if len(p.scopes) != 1 || strings.HasSuffix(p.scopes[0], "*") {
		return "", false
	}
	return stet.Scope(p.scopes[0]), true
}

// find is [Find] for who asks: what is in a scope that is not theirs is [stet.ErrNotFound], like what never was.
func (h *handler) find(ctx context.Context, who principal, scope stet.Scope, name string) (stet.Record, error) {
	if !who.allows(scope) {
		return stet.Record{}, stet.ErrNotFound
	}
	rec, err := Find(ctx, h.engine, scope, name)
	if err == nil && !who.allows(rec.Scope) {
		return stet.Record{}, stet.ErrNotFound
	}
	return rec, err
}

// allow lets a request through to f if it comes from somebody who may see records.
func (h *handler) allow(f func(http.ResponseWriter, *http.Request, principal)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !h.knownHost(r.Host) {
			forbidden("This Host is not served here: use localhost, an IP address, or a name that is configured.").write(w)
			return
		}
		who, ok := h.authenticate(r)
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer realm="stet admin"`)
			unauthenticated.write(w)
			return
		}
		f(w, r, who)
	}
}

// authenticate compares with every token in constant time: how long it takes tells nothing about any of them.
func (h *handler) authenticate(r *http.Request) (principal, bool) {
	tokens := h.tokens()
	if len(tokens) == 0 {
		return principal{name: h.Who, role: Admin}, local(r)
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(secret)))
	var found *Token
	for i := range tokens {
		if subtle.ConstantTimeCompare(sum[:], tokens[i].SHA256[:]) == 1 {
			found = &tokens[i]
		}
	}
	if found == nil || !strings.EqualFold(scheme, "Bearer") {
		return principal{}, false
	}
	return principal{found.Name, found.Role, found.Scopes}, true
}

func (h *handler) tokens() []Token {
	if h.Tokens == nil {
		return nil
	}
	return h.Tokens()
}

// local reports whether the request comes from this machine: over loopback, or through a Unix socket, which its owner opened.
func local(r *http.Request) bool {
	if on, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && on.Network() == "unix" {
		return true
	}
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

// knownHost refuses names that anybody could point at this address.
func (h *handler) knownHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	is := func(name string) bool { return strings.EqualFold(name, host) }
	return is("localhost") || slices.ContainsFunc(h.Hosts, is)
}
