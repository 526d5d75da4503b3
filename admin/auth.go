package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
)

var (
	notFound        = operate.ProblemOf(stet.ErrNotFound)
	unauthenticated = &operate.Problem{Status: 401, Code: "unauthenticated", Title: "Authentication is needed", Detail: "Send Authorization: Bearer and a token."}
	wrongToken      = &operate.Problem{Status: 401, Code: "unauthenticated", Title: "The token was refused", Detail: "It is none that is known here, or it has expired."}
	tooManyLogins   = &operate.Problem{Status: 429, Code: "too-many-logins", Title: "Too many wrong tokens", Retryable: true}
	notJSON         = &operate.Problem{Status: 415, Code: "not-json", Title: "A change is sent as JSON", Detail: "Send Content-Type: application/json."}
)

// admit finds out who makes the call, by the Authorization that it shows. Its error says why the call
// is refused.
func (h *Handler) admit(c *call, shown string) error {
	if err := h.knownHost(c.Host); err != nil {
		return err
	}
	if len(h.conf.Tokens) == 0 && local(c.Request) {
		for _, name := range ProxyHeaders {
			if c.Header[name] != nil {
				return operate.Forbidden("This call came through a proxy (" + name + "), and could be anybody's: without tokens only calls of this machine itself are taken. Set admin.token_file, or admin.tokens_file.")
			}
		}
		c.who = operate.Caller{Name: h.conf.Who, Role: operate.Admin}
		return nil
	}
	if len(h.conf.Tokens) == 0 || shown == "" {
		c.header.Set("WWW-Authenticate", realm)
		return unauthenticated
	}
	t, right := h.match(shown)
	wait, audit := h.conf.Throttle.take(sender(c.Request), right)
	switch {
	case wait > 0:
		p := *tooManyLogins
		p.RetryAfter = strconv.Itoa(int((wait + time.Second - 1) / time.Second))
		p.Detail = "Wrong tokens came from this address: the next one is looked at in " + p.RetryAfter + " s."
		return &p
	case !right:
		h.refused(c.Request, t, audit)
		c.header.Set("WWW-Authenticate", realm+`, error="invalid_token"`)
		return wrongToken
	}
	c.who = t.caller()
	return nil
}

// ProxyHeaders are headers that many proxies add. A call with one of them is not local, wherever its
// connection comes from: a proxy on the same machine brings the whole network to loopback. One that
// adds none of them cannot be told from a program here.
var ProxyHeaders = []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"}

const realm = `Bearer realm="stet admin"`

// match compares with every token in constant time: how long it takes tells nothing about any of
// them. A token that is known and still not right has expired.
func (h *Handler) match(shown string) (t Token, right bool) {
	scheme, secret, _ := strings.Cut(shown, " ")
	secret = strings.TrimSpace(secret)
	sum, known := sha256.Sum256([]byte(secret)), false
	for i := range h.conf.Tokens {
		if subtle.ConstantTimeCompare(sum[:], h.conf.Tokens[i].SHA256[:]) == 1 {
			t, known = h.conf.Tokens[i], true
		}
	}
	expired := !t.Expires.IsZero() && !time.Now().Before(t.Expires)
	return t, known && strings.EqualFold(scheme, "Bearer") && !expired
}

// refused counts, logs and audits a wrong token. t is the token that has expired, if it is one.
func (h *Handler) refused(r *http.Request, t Token, audit bool) {
	if h.conf.Refused != nil {
		h.conf.Refused()
	}
	from, why := remote(r), "the token is not known"
	if t.Name != "" {
		why = "the token has expired, or was not sent as Bearer"
	}
	log := []slog.Attr{slog.String("remote", from), slog.String("why", why)}
	if t.Name != "" {
		log = append(log, slog.String("token", t.Name))
	}
	h.conf.Log.LogAttrs(r.Context(), slog.LevelWarn, "a login was refused", log...)
	if audit {
		h.service.LoginRefused(r.Context(), from, why, t.Name)
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

// knownHost refuses names that anybody could point at this address.
func (h *Handler) knownHost(host string) error {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	is := func(name string) bool { return strings.EqualFold(name, host) }
	if _, err := netip.ParseAddr(host); err == nil || is("localhost") || slices.ContainsFunc(h.conf.Hosts, is) {
		return nil
	}
	return operate.Forbidden("This Host is not served here: use localhost, an IP address, or a name that is configured.")
}
