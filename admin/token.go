package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet/operate"
)

// Token is the right of its bearer to make calls. The secret itself is not kept.
type Token struct {
	Name   string            // its bearer's name in the log and the audit trail; required
	SHA256 [sha256.Size]byte // of the secret
	Role   operate.Role      // what it allows; the zero value is [operate.Viewer]
	// Scopes are those the right is bound to: each is a scope, or the beginning of scopes with *
	// after it. What is in another one is for this token as if it did not exist. Without any it is
	// bound to none.
	Scopes  []string
	Expires time.Time // when it ends; zero: never
}

// NewToken returns the Token of a secret.
func NewToken(name, secret string, role operate.Role) Token {
	return Token{Name: name, SHA256: sha256.Sum256([]byte(secret)), Role: role}
}

// caller is who shows the token.
func (t *Token) caller() operate.Caller {
	return operate.Caller{Name: t.Name, Role: t.Role, Scopes: t.Scopes}
}

// ParseTokens reads
//
//	{"NAME": {"sha256": "hex", "role": "viewer|operator|admin",
//	          "scopes": ["acme", "shop-*"], "expires": "2027-01-31T00:00:00Z"}}
//
// where scopes and expires may be left out. The error names the token.
func ParseTokens(doc []byte) ([]Token, error) {
	var entries map[string]struct {
		SHA256  string
		Role    *operate.Role
		Scopes  *[]string
		Expires time.Time
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
		case e.Scopes != nil && (len(*e.Scopes) == 0 || slices.Contains(*e.Scopes, "")):
			return nil, fmt.Errorf("admin: token %q: scopes names at least one, and none that is empty; leave it out for a token of all scopes", name)
		}
		t.Role, t.Expires = *e.Role, e.Expires
		if e.Scopes != nil {
			t.Scopes = *e.Scopes
		}
		copy(t.SHA256[:], sum)
		tokens = append(tokens, t)
	}
	slices.SortFunc(tokens, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return tokens, nil
}
