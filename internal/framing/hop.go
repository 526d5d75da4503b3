package framing

import (
	"net/http"
	"strings"
)

// HopByHop reports whether a field goes no further than the connection that it came on, whether
// Connection lists it or not (RFC 9110 section 7.6.1). The name is in canonical form.
func HopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// Listed returns the names of fields in the lines of Connection or Trailer, in canonical form.
func Listed(lines []string) (names []string) {
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	return names
}
