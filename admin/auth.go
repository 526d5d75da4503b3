package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Role says what a token allows. Each includes the ones before it.
type Role uint8

const (
	Viewer   Role = iota // see records, metrics and the policy
	Operator             // see keys and responses too, and settle outcomes
	Admin                // everything
)

var roleNames = [...]string{Viewer: "viewer", Operator: "operator", Admin: "admin"}

func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// UnmarshalText accepts viewer, operator and admin.
func (r *Role) UnmarshalText(text []byte) error {
	i := slices.Index(roleNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("admin: %q is no role: viewer, operator or admin", text)
	}
	*r = Role(i)
	return nil
}

// Token is somebody's right to ask. The token itself is not kept.
type Token struct {
	Name   string // who it is, in the log
	SHA256 [sha256.Size]byte
	Role   Role
}

// NewToken returns the Token of a secret.
func NewToken(name, secret string, role Role) Token {
	return Token{name, sha256.Sum256([]byte(secret)), role}
}

// ParseTokens reads {"NAME": {"sha256": "hex", "role": "viewer|operator|admin"}}. The error names the token.
func ParseTokens(doc []byte) ([]Token, error) {
	var entries map[string]struct {
		SHA256 string
		Role   *Role
	}
	dec := json.NewDecoder(strings.NewReader(string(doc)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&entries); err != nil {
		return nil, fmt.Errorf("admin: tokens: %w", err)
	}
	if dec.More() || len(entries) == 0 {
		return nil, errors.New("admin: tokens: want one object with at least one token")
	}
	var tokens []Token
	for name, e := range entries {
		t := Token{Name: name}
		sum, err := hex.DecodeString(e.SHA256)
		switch {
		case name == "":
			return nil, errors.New("admin: tokens: a token needs a name")
		case err != nil || len(sum) != len(t.SHA256):
			return nil, fmt.Errorf("admin: token %q: sha256 has to be the SHA-256 of the token, 64 hex digits", name)
		case e.Role == nil:
			return nil, fmt.Errorf("admin: token %q: it needs a role: viewer, operator or admin", name)
		}
		t.Role = *e.Role
		copy(t.SHA256[:], sum)
		tokens = append(tokens, t)
	}
	slices.SortFunc(tokens, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return tokens, nil
}

// principal is who asks.
type principal struct {
	name string
	role Role
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
	if len(h.Tokens) == 0 {
		addr, err := netip.ParseAddrPort(r.RemoteAddr)
		return principal{h.Who, Admin}, err == nil && addr.Addr().Unmap().IsLoopback()
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(secret)))
	var found *Token
	for i := range h.Tokens {
		if subtle.ConstantTimeCompare(sum[:], h.Tokens[i].SHA256[:]) == 1 {
			found = &h.Tokens[i]
		}
	}
	if found == nil || !strings.EqualFold(scheme, "Bearer") {
		return principal{}, false
	}
	return principal{found.Name, found.Role}, true
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
