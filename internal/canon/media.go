package canon

import (
	"mime"
	"strings"
)

// Essence returns the type and subtype of a Content-Type value in small letters, without its
// parameters (RFC 9110 section 8.3.1). It reports false if there is no such thing.
func Essence(value string) (string, bool) {
	value, _, _ = strings.Cut(value, ";")
	value = strings.Trim(value, " \t")
	general, special, ok := strings.Cut(value, "/")
	if !ok || !IsToken(general) || !IsToken(special) {
		return "", false
	}
	return strings.ToLower(value), true // does not allocate where nothing changes
}

// IsJSON reports whether an essence is JSON: application/json, or any type with the suffix +json
// (RFC 6839 section 3.1).
func IsJSON(essence string) bool {
	return essence == "application/json" || strings.HasSuffix(essence, "+json")
}

// Boundary returns the boundary of a multipart Content-Type, "" if it has none that can be used.
func Boundary(value string) string {
	_, params, err := mime.ParseMediaType(value)
	if err != nil {
		return ""
	}
	b := params["boundary"]
	if strings.HasSuffix(b, " ") || strings.ContainsAny(b, "\r\n") {
		return ""
	}
	return b
}

// IsToken reports whether s is a token of RFC 9110 section 5.6.2.
func IsToken[T string | []byte](s T) bool { return Only(s, "!#$%&'*+-.^_`|~") }

// Only reports whether s is not empty and has nothing but letters and digits of ASCII, and marks.
func Only[T string | []byte](s T, marks string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		digit := '0' <= c && c <= '9'
		if !letter && !digit && strings.IndexByte(marks, c) < 0 {
			return false
		}
	}
	return len(s) > 0
}
