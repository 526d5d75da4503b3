package door

import (
	"net/http"
	"strings"
)

// Upgrades reports whether a request may switch its connection to another protocol: a GET with such
// an offer, as WebSocket's is (RFC 9110 section 7.8), or the extended CONNECT of HTTP/2 (RFC 8441).
// A request with a method that changes something has an outcome, whatever else it offers, and so
// has a guarded GET; there the offer is ignored, as any server may do: see [Rules.Enter].
func Upgrades(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet:
		return OffersUpgrade(r.Header)
	case http.MethodConnect:
		return r.ProtoMajor >= 2 && r.Header[":protocol"] != nil // where net/http puts it
	}
	return false
}

// OffersUpgrade reports whether a header offers to switch to a protocol other than HTTP. An offer
// of another version of HTTP, or of TLS below it, does not count: Java's client and curl offer h2c
// with the first request of each connection in clear. A server may ignore it, and the request means
// the same without it.
func OffersUpgrade(h http.Header) bool {
	return h["Upgrade"] != nil && has(h["Connection"], isUpgrade) && has(h["Upgrade"], func(protocol string) bool {
		name, _, _ := strings.Cut(protocol, "/")
		switch strings.ToLower(name) {
		case "", "h2c", "h2", "http", "tls":
			return false
		}
		return true
	})
}

// withdrawUpgrade removes the offer from a header: Upgrade itself, and the option of Connection
// that belongs to it.
func withdrawUpgrade(h http.Header) {
	delete(h, "Upgrade")
	if !has(h["Connection"], isUpgrade) {
		return
	}
	var left []string
	for _, line := range h["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			if option = strings.TrimSpace(option); option != "" && !isUpgrade(option) {
				left = append(left, option)
			}
		}
	}
	delete(h, "Connection")
	if len(left) > 0 {
		h["Connection"] = []string{strings.Join(left, ", ")}
	}
}

func isUpgrade(option string) bool { return strings.EqualFold(option, "upgrade") }

// has reports whether is holds for a member of a list field, in any of its lines.
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
