package stet

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Fingerprint says what a request asked for, and by which recipe that was computed.
//
// It is not secret like a key, but who can guess a request can check the guess; so it never shows itself: formatted,
// logged or marshalled as text it is "[fingerprint]".
type Fingerprint struct {
	// Recipe is the text of a [Recipe]. Whoever has the request can compute the fingerprint again, also years later.
	Recipe string
	// Sum is the SHA-256 of the recipe and of all parts, each tagged and with its length, so that nothing in one part can
	// look like another (case FP-28).
	Sum [32]byte
	// Parts are short digests of method, path, query, headers and body. They tell which part differs and prove nothing:
	// different parts can have the same digest.
	Parts [5]uint32
}

// partNames name Fingerprint.Parts.
var partNames = [...]string{"method", "path", "query", "headers", "body"}

// The indexes of Fingerprint.Parts.
const (
	partMethod = iota
	partPath
	partQuery
	partHeaders
	partBody
)

// Equal reports whether both were made by the same recipe of requests that ask for the same. The time it takes says
// nothing about where two sums differ.
func (f Fingerprint) Equal(g Fingerprint) bool {
	return f.Recipe == g.Recipe && subtle.ConstantTimeCompare(f.Sum[:], g.Sum[:]) == 1
}

// Differs names the parts in which two requests differ: method, path, query, headers, body. It returns nil if the recipes
// differ, for then nothing can be said. It is for people who look for a reason; only Equal decides.
func (f Fingerprint) Differs(g Fingerprint) []string {
	if f.Recipe != g.Recipe {
		return nil
	}
	var names []string
	for i := range f.Parts {
		if f.Parts[i] != g.Parts[i] {
			names = append(names, partNames[i])
		}
	}
	return names
}

const hidden = "[fingerprint]"

// Format prints "[fingerprint]", whatever the verb.
func (f Fingerprint) Format(s fmt.State, _ rune) { io.WriteString(s, hidden) }

// LogValue logs "[fingerprint]".
func (f Fingerprint) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText returns "[fingerprint]". Stores write the fields.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Subject is the request a fingerprint is taken of. Nothing in it is changed or kept.
type Subject struct {
	Method   string
	Path     string              // escaped, as it was sent: /a%2Fb is not /a/b
	RawQuery string              // without the question mark
	Header   map[string][]string // by names as net/http spells them; a field line a value
	Body     []byte              // as it was sent; no body and an empty one are the same (case FP-25)
}

// Fingerprint takes the fingerprint of a request. The error is that of [Recipe.Validate]: there is no request that has no
// fingerprint. For more than one request, Compile first.
func (r Recipe) Fingerprint(s *Subject) (Fingerprint, error) {
	f, err := r.Compile()
	if err != nil {
		return Fingerprint{}, err
	}
	return f.Fingerprint(s), nil
}
