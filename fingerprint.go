package stet

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"slices"
)

// Fingerprint says what a request asked for, and by which recipe that was computed.
//
// It is not a secret like a key, but with it a guess at a request can be checked. So it does not
// show itself: formatted, logged or marshalled as text it is "[fingerprint]".
type Fingerprint struct {
	// Recipe is the text of a [Recipe]. With the request, the fingerprint can be computed again
	// from it, also years later.
	Recipe string
	// Sum is the SHA-256 of the recipe and of all parts, each tagged and with its length, so that
	// nothing in one part can look like another (case FP-28).
	Sum [32]byte
	// Parts are short digests: of the method and, in the lower half, of the media type; of the
	// path; of the query; of the host and the headers that count, which share the bits among them;
	// of the body as it is compared and, in the lower half, as it was sent. They tell which part
	// differs and prove nothing: different parts can have the same digest.
	Parts [5]uint32
}

// The indexes of Fingerprint.Parts.
const (
	partMethod = iota
	partPath
	partQuery
	partHeaders
	partBody
)

// equal reports whether both were made by the same recipe of requests that ask for the same. The
// time it takes says nothing about where two sums differ.
func (f Fingerprint) equal(g Fingerprint) bool {
	return f.Recipe == g.Recipe && subtle.ConstantTimeCompare(f.Sum[:], g.Sum[:]) == 1
}

// differs names the parts in which two requests differ: method, path, query, media-type, body,
// host, and header:Name for each header that counts. It returns nil if the recipes differ, for then
// nothing can be said. What it names does differ; a difference that the short digests do not show
// is not named. It is for people who look for a reason; only equal decides.
func (f Fingerprint) differs(g Fingerprint) []string {
	if f.Recipe != g.Recipe {
		return nil
	}
	a, b := &f.Parts, &g.Parts
	var names []string
	add := func(name string, differs bool) {
		if differs {
			names = append(names, name)
		}
	}
	add("method", upper(a[partMethod]) != upper(b[partMethod]))
	add("path", a[partPath] != b[partPath])
	add("query", a[partQuery] != b[partQuery])
	typeA, typeB := lower(a[partMethod]), lower(b[partMethod])
	retyped := typeA != typeB && typeA != 0 && typeB != 0 // a body that is empty has no type
	add("media-type", retyped)
	if retyped { // read as another type, the same bytes are compared as something else
		add("body", lower(a[partBody]) != lower(b[partBody]))
	} else {
		add("body", upper(a[partBody]) != upper(b[partBody]))
	}
	if a[partHeaders] != b[partHeaders] {
		names = append(names, f.headersThatDiffer(g)...)
	}
	return names
}

func (f Fingerprint) headersThatDiffer(g Fingerprint) (names []string) {
	recipe, err := parseRecipe(f.Recipe)
	if err != nil {
		return nil
	}
	var parts []string
	if recipe.Host {
		parts = append(parts, wordHost)
	}
	compiled := recipe.compile()
	for _, name := range slices.Concat(compiled.headers, compiled.partial) {
		parts = append(parts, "header:"+name)
	}
	for i, part := range parts {
		if mask := share(^uint32(0), i, len(parts)); (f.Parts[partHeaders]^g.Parts[partHeaders])&mask != 0 {
			names = append(names, part)
		}
	}
	return names
}

// share puts as much of a digest as fits into the bits that header i of n has of its part: 32
// between them, and the first 32 one each where there are more.
func share(digest uint32, i, n int) uint32 {
	width := max(1, 32/n)
	if i*width >= 32 {
		return 0
	}
	return digest >> (32 - width) << (i * width)
}

// fold makes 16 bits of a digest.
func fold(digest uint32) uint32 { return upper(digest) ^ lower(digest) }

func upper(part uint32) uint32 { return part >> 16 }
func lower(part uint32) uint32 { return part & 0xffff }

const hidden = "[fingerprint]"

// Format prints "[fingerprint]", whatever the verb.
func (f Fingerprint) Format(s fmt.State, _ rune) { io.WriteString(s, hidden) }

// LogValue logs "[fingerprint]".
func (f Fingerprint) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText returns "[fingerprint]". Stores write the fields.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Subject is the request that a fingerprint is taken of. Nothing in it is changed or kept.
type Subject struct {
	Method   string
	Path     string              // escaped, as the client sent it: /a%2Fb is not /a/b
	Routed   string              // what Path was changed to on its way, if it was; it counts unless it is the end of Path
	RawQuery string              // without the question mark
	Host     string              // with its port, in one form of all its spellings; it counts with [Recipe].Host alone
	Header   map[string][]string // by names as net/http spells them; a field line a value
	Body     []byte              // as it was sent; no body and an empty one are the same (case FP-25)
}
