package stethttp

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"unicode"

	"github.com/stet-dev/stet"
)

// ScopeFunc returns whose request it is: a tenant, or a tenant and a principal. It must rest on something already
// authenticated, and must not change when a token is refreshed. An error refuses the request with 401; nothing is looked up.
type ScopeFunc func(*http.Request) (stet.Scope, error)

// ErrNoIdentity is what the scope functions of this package return for a request that does not say whose it is.
var ErrNoIdentity = errors.New("stethttp: the request does not say whose it is")

// DefaultScope is the scope of [SingleTenant].
const DefaultScope stet.Scope = "default"

// SingleTenant puts all requests into one scope. For an API with one client, or one where clients may share results.
func SingleTenant(*http.Request) (stet.Scope, error) { return DefaultScope, nil }

// HeaderScope takes the scope from a header that a trusted proxy sets (and overwrites), without whitespace around it, which is no
// part of a value (RFC 9110 section 5.5). Several lines are refused, and control characters.
func HeaderScope(name string) ScopeFunc {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (stet.Scope, error) {
		v := r.Header[name]
		if len(v) != 1 {
			return "", ErrNoIdentity
		}
		scope := strings.Trim(v[0], " \t")
		if scope == "" || strings.ContainsFunc(scope, unicode.IsControl) {
			return "", ErrNoIdentity
		}
		return stet.Scope(scope), nil
	}
}

// APIKeyScope derives the scope from a long-lived credential in a header: "ak_" and the unpadded base64url SHA-256 of the
// whole value, so that the credential itself is stored nowhere. Not for tokens that are refreshed.
func APIKeyScope(name string) ScopeFunc {
	raw := HeaderScope(name)
	return func(r *http.Request) (stet.Scope, error) {
		v, err := raw(r)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256([]byte(v))
		return stet.Scope("ak_" + base64.RawURLEncoding.EncodeToString(sum[:])), nil
	}
}

// ClientCertScope derives the scope from the verified TLS client certificate: "cert_" and the hex SHA-256 of it. A renewed
// certificate is another scope.
func ClientCertScope(r *http.Request) (stet.Scope, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return "", ErrNoIdentity
	}
	sum := sha256.Sum256(r.TLS.VerifiedChains[0][0].Raw)
	return stet.Scope("cert_" + hex.EncodeToString(sum[:])), nil
}
