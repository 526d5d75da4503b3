package sealstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/stet-dev/stet"
)

// names is the key that hashes scopes and keys. If it is nil, they are stored as they are.
type names []byte

// Hashed names begin with these prefixes. People recognize them, and so does Check if the key
// for names was lost.
const (
	scopePrefix = "~s"
	keyPrefix   = "~k"
)

// scope hashes a scope by itself, so that queries by scope work.
func (n names) scope(s stet.Scope) stet.Scope {
	if n == nil {
		return s
	}
	return stet.Scope(scopePrefix + n.sum(1, string(s)))
}

// id hashes the key together with its scope, so that it does not show which scopes use the same
// key.
func (n names) id(id stet.ID) stet.ID {
	if n == nil {
		return id
	}
	return stet.ID{Scope: n.scope(id.Scope), Key: stet.Key(keyPrefix + n.sum(2, string(id.Scope), string(id.Key)))}
}

func (n names) sum(kind byte, parts ...string) string {
	mac := hmac.New(sha256.New, n)
	_, _ = mac.Write([]byte{kind})
	_, _ = mac.Write(bound(parts...))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// hashed reports whether id has the form of hashed names.
func hashed(id stet.ID) bool {
	size := base64.RawURLEncoding.EncodedLen(sha256.Size)
	return len(id.Scope) == len(scopePrefix)+size && len(id.Key) == len(keyPrefix)+size &&
		strings.HasPrefix(string(id.Scope), scopePrefix) && strings.HasPrefix(string(id.Key), keyPrefix)
}
