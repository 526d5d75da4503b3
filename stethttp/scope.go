package stethttp

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/door"
)

// ScopeFunc returns the scope that a request's key belongs to: a tenant, or a tenant and a
// principal. It must rest on something already authenticated, and must not change when a token is
// refreshed. If it returns an error, the request is refused with 401 and nothing is looked up; a
// [*NoIdentity] says what is missing. It is called concurrently.
type ScopeFunc func(*http.Request) (stet.Scope, error)

// ErrNoIdentity is the error of a scope function for a request that does not identify its sender.
var ErrNoIdentity = errors.New("stethttp: the request does not identify its sender")

// NoIdentity is an [ErrNoIdentity] that names what is missing. The scope functions of this package
// return it.
type NoIdentity struct {
	// Challenge is the value of WWW-Authenticate (RFC 9110 section 11.6.1), such as `Bearer
	// realm="payments"` if the scope comes from a token.
	Challenge string

	// Detail, if set, is the sentence that the caller gets in the place of the general one. It must
	// not repeat a credential.
	Detail string
}

func (e *NoIdentity) Error() string { return ErrNoIdentity.Error() }

// Is reports whether target is [ErrNoIdentity].
func (e *NoIdentity) Is(target error) bool { return target == ErrNoIdentity }

// realm is what the challenges of this package ask for. Their schemes are not registered, so that
// no browser asks for a password.
const realm = `realm="idempotency keys"`

// someIdentity is the challenge if it is not known what is missing.
const someIdentity = "Identity " + realm

// DefaultScope is the scope of [SingleTenant].
const DefaultScope stet.Scope = "default"

// SingleTenant puts all requests into [DefaultScope]. It is for an API with one client, or with
// clients that may see each other's results.
func SingleTenant(*http.Request) (stet.Scope, error) { return DefaultScope, nil }

// HeaderScope takes the scope from a header that a trusted proxy sets and overwrites. White space
// around the value is not part of it (RFC 9110 section 5.5). Requests with several such lines, or
// with control characters in the value, are refused, and so are JSON Web Tokens (RFC 7519). It
// panics on a header that is known to hold a credential, such as Authorization, because scopes are
// stored, listed and logged as they are.
func HeaderScope(name string) ScopeFunc {
	if door.HoldsCredential(door.Name(name)) {
		panic("stethttp: HeaderScope: " + name + " holds a credential, and scopes are stored, listed and logged; " +
			"use what stays the same, such as a header X-Tenant-Id that your proxy sets")
	}
	return headerScope("Header", name)
}

// headerScope is [HeaderScope] with the scheme of its challenge, which names the header.
func headerScope(scheme, name string) ScopeFunc {
	name = http.CanonicalHeaderKey(name)
	missing := &NoIdentity{Challenge: scheme + " " + realm + `, name="` + name + `"`}
	token := &NoIdentity{Challenge: missing.Challenge, Detail: name + " has a token, and the next token will be another: a retry with it would run again. " +
		"The API has to tell callers apart by what stays the same. Nothing was looked up, and nothing was run."}
	return func(r *http.Request) (stet.Scope, error) {
		v := r.Header[name]
		if len(v) != 1 {
			return "", missing
		}
		scope := strings.Trim(v[0], " \t")
		if scope == "" || strings.ContainsFunc(scope, unicode.IsControl) {
			return "", missing
		}
		if isJWT(scope) {
			return "", token
		}
		return stet.Scope(scope), nil
	}
}

// isJWT reports whether a field's value, after the name of a scheme if there is one, is a JSON Web
// Token: three parts if it is signed, five if it is encrypted, and a JSON head with an algorithm
// (RFC 7515 section 7.1, RFC 7516 section 7.1). No claim in it is looked at: it is not
// verified here.
func isJWT(v string) bool {
	v = v[strings.LastIndexByte(v, ' ')+1:]
	if n := strings.Count(v, "."); n != 2 && n != 4 {
		return false
	}
	head, err := base64.RawURLEncoding.DecodeString(v[:strings.IndexByte(v, '.')])
	var jose struct{ Alg string }
	return err == nil && json.Unmarshal(head, &jose) == nil && jose.Alg != ""
}

// APIKeyScope derives the scope from a long-lived credential in a header: "ak_" and the unpadded
// base64url SHA-256 of the whole value, so that the credential itself is not stored. It does not
// fit what is renewed: a retry with the next credential is another caller's. JSON Web Tokens are
// refused (RFC 7519).
func APIKeyScope(name string) ScopeFunc {
	raw := headerScope("ApiKey", name)
	return func(r *http.Request) (stet.Scope, error) {
		v, err := raw(r)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256([]byte(v))
		return stet.Scope("ak_" + base64.RawURLEncoding.EncodeToString(sum[:])), nil
	}
}

var noCertificate = &NoIdentity{Challenge: "ClientCertificate " + realm}

// ClientCertScope derives the scope from the verified TLS client certificate: "cert_" and the hex
// SHA-256 of the certificate. A renewed certificate is another scope.
func ClientCertScope(r *http.Request) (stet.Scope, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return "", noCertificate
	}
	sum := sha256.Sum256(r.TLS.VerifiedChains[0][0].Raw)
	return stet.Scope("cert_" + hex.EncodeToString(sum[:])), nil
}
