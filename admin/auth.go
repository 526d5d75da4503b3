package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
)

// principal is who asks.
type principal struct {
	name   string
	role   Role
	scopes []string // as in [Token]
}

// login finds out who makes the call. Its error says why the call is refused.
func (h *handler) login(c *call) error {
	if len(h.Tokens) == 0 && local(c.Request) {
		c.who = principal{name: h.Who, role: Admin}
		return nil
	}
	shown := c.Header.Get("Authorization")
	if len(h.Tokens) == 0 || shown == "" {
		c.header.Set("WWW-Authenticate", realm)
		return unauthenticated
	}
	t, right := h.match(shown)
	wait, audit := h.Throttle.take(sender(c.Request), right)
	switch {
	case wait > 0:
		p, s := *tooManyLogins, strconv.Itoa(int((wait+time.Second-1)/time.Second))
		c.header.Set("Retry-After", s)
		p.Detail = "Wrong tokens came from this address: the next one is looked at in " + s + " s."
		return &p
	case !right:
		h.refused(c.Request, t, audit)
		c.header.Set("WWW-Authenticate", realm+`, error="invalid_token"`)
		return wrongToken
	}
	c.who = principal{t.Name, t.Role, t.Scopes}
	return nil
}

const realm = `Bearer realm="stet admin"`

// match compares with every token in constant time: how long it takes tells nothing about any of
// them. A token that is known and still not right has expired.
func (h *handler) match(shown string) (t Token, right bool) {
	scheme, secret, _ := strings.Cut(shown, " ")
	secret = strings.TrimSpace(secret)
	sum, known := sha256.Sum256([]byte(secret)), false
	for i := range h.Tokens {
		if subtle.ConstantTimeCompare(sum[:], h.Tokens[i].SHA256[:]) == 1 {
			t, known = h.Tokens[i], true
		}
	}
	expired := !t.Expires.IsZero() && !time.Now().Before(t.Expires)
	return t, known && strings.EqualFold(scheme, "Bearer") && !expired
}

// refused counts, logs and audits a wrong token. t is the token that has expired, if it is one.
func (h *handler) refused(r *http.Request, t Token, audit bool) {
	if h.Refused != nil {
		h.Refused()
	}
	from, why := remote(r), "the token is not known"
	if t.Name != "" {
		why = "the token has expired, or was not sent as Bearer"
	}
	log := []slog.Attr{slog.String("remote", from), slog.String("why", why)}
	if t.Name != "" {
		log = append(log, slog.String("token", t.Name))
	}
	h.Log.LogAttrs(r.Context(), slog.LevelWarn, "a login was refused", log...)
	if !audit {
		return
	}
	err := h.engine.Operator().Audit(r.Context(), stet.ID{}, stet.Note{Who: from, Action: actionLoginRefused, Why: why, Evidence: t.Name})
	if err != nil && !errors.Is(err, stet.ErrUnsupported) {
		h.Log.LogAttrs(r.Context(), slog.LevelWarn, "a refused login is not in the audit trail: the store did not answer", slog.String("remote", from))
	}
}

// local reports whether the request comes from this machine: over loopback, or through a Unix
// socket, which its owner opened.
func local(r *http.Request) bool {
	if on, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && on.Network() == "unix" {
		return true
	}
	return address(r).IsLoopback()
}

// address is where the request comes from; through a Unix socket, the zero one.
func address(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr().Unmap()
}

// lacks is the answer to who needs another role.
func lacks(who principal, needed Role) error {
	return forbidden("This takes the role " + needed.String() + "; " + who.name + " has the role " + who.role.String() + ".")
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

// allows reports whether what is in the scope exists for p. What belongs to no scope, such as a
// refused login, has the empty one.
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

// only fills in the one scope that p may see, if it is known by name, where a list names none: it
// is then asked for that alone, and needs no filter.
func (p principal) only(scope *stet.Scope) {
	if *scope == "" && len(p.scopes) == 1 && !strings.HasSuffix(p.scopes[0], "*") {
		*scope = stet.Scope(p.scopes[0])
	}
}

// within fills in the one scope that p may see where a list names none. Where it names one that is
// out of reach it says so: an empty list would read as if nothing were wrong there. It says the
// same whether there is such a scope or not.
func (p principal) within(scope *stet.Scope) error {
	if p.only(scope); *scope != "" && !p.allows(*scope) {
		return forbidden(p.name + " is bound to other scopes: name one of those, or none.")
	}
	return nil
}

// Whoami is the answer of GET /api/v1/whoami: whose token the call came with, and what it allows.
type Whoami struct {
	Name    string   `json:"name"`
	Role    string   `json:"role"`
	Scopes  []string `json:"scopes,omitzero"` // as in [Token]
	NoToken bool     `json:"no_token"`        // the call needed none
}

// whoami answers GET /api/v1/whoami.
func (h *handler) whoami(c *call) (any, error) {
	return Whoami{Name: c.who.name, Role: c.who.role.String(), Scopes: c.who.scopes, NoToken: len(h.Tokens) == 0}, nil
}
