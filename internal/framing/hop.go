package framing

import (
	"net/http"
	"slices"
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

// Names is a set of field names in canonical form.
type Names struct {
	list  []string
	index map[string]struct{} // nil if the list is short
}

// shortList is up to how many names are looked for one by one. A sender decides how many it lists,
// and each field of its message is looked for.
const shortList = 8

// Listed returns the names of fields in the lines of Connection or Trailer.
func Listed(lines []string) (n Names) {
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			n.list = append(n.list, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	if len(n.list) > shortList {
		n.index = make(map[string]struct{}, len(n.list))
		for _, name := range n.list {
			n.index[name] = struct{}{}
		}
	}
	return n
}

// Has reports whether name, which is in canonical form, is listed.
func (n *Names) Has(name string) bool {
	if n.index == nil {
		return slices.Contains(n.list, name)
	}
	_, listed := n.index[name]
	return listed
}

// List returns the names as they were listed, without the one that is left out.
func (n *Names) List(without string) []string {
	return slices.DeleteFunc(slices.Clone(n.list), func(name string) bool { return name == without })
}
