// Package upgrade tells which requests ask for another protocol on their connection.
package upgrade

import (
	"net/http"
	"strings"
)

// Asked reports whether a request asks for its connection to become something else than HTTP (RFC 9110 section 7.8). An offer of
// another version of HTTP, or of TLS below it, is none: Java's client and curl offer h2c with every first request of a
// connection in clear. A server may ignore it, and the request means what it would mean without.
func Asked(h http.Header) bool {
	return has(h["Connection"], func(option string) bool { return strings.EqualFold(option, "upgrade") }) &&
		has(h["Upgrade"], func(protocol string) bool {
			name, _, _ := strings.Cut(protocol, "/")
			switch strings.ToLower(name) {
			case "", "h2c", "h2", "http", "tls":
				return false
			}
			return true
		})
}

// has reports whether a member of a list field, in any of its lines, is one.
func has(lines []string, is func(string) bool) bool {
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			if is(strings.TrimSpace(member)) {
				return true
			}
		}
	}
	return false
}
