package door

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/stet-dev/stet/internal/canon"
)

// Authority returns the one form of a host with an optional port, as it stands in Host, :authority
// and the absolute-form of a target: in lower case, without the dot that ends a full domain name,
// without the scheme's own port, and with an IPv6 address as RFC 5952 spells it. Different readers
// take all these spellings for one host (RFC 3986 section 6.2). https is the scheme of the
// connection.
//
// Authority reports false for what is no host: other bytes than those of domain names, underscores
// and addresses, an empty label, a zone, a port over 65535, or user information. An empty host is
// its own form. If nothing has to be changed, host itself is returned and nothing is allocated.
func Authority(host string, https bool) (form string, ok bool) {
	if host == "" {
		return "", true
	}
	name, port, ok := splitPort(host)
	if !ok {
		return "", false
	}
	if name, ok = hostName(name); !ok {
		return "", false
	}
	if port, ok = portOf(port, https); !ok {
		return "", false
	}
	switch {
	case port == "":
		return name, true
	case len(name)+len(":")+len(port) == len(host) && strings.HasPrefix(host, name):
		return host, true
	}
	return name + ":" + port, true
}

// Host returns the form of the host that a request is for, also of one that was not let in: where
// nothing is refused, a host without a form is left as it was sent.
func Host(r *http.Request) string {
	if form, ok := Authority(r.Host, r.TLS != nil); ok {
		return form
	}
	return r.Host
}

// splitPort cuts a host where its port begins. port has the colon.
func splitPort(host string) (name, port string, ok bool) {
	end := strings.IndexByte(host, ':')
	if host[0] == '[' {
		end = strings.IndexByte(host, ']') + 1
		if end < 1 {
			return "", "", false
		}
	}
	if end < 0 || end == len(host) {
		return host, "", true
	}
	return host[:end], host[end:], host[end] == ':'
}

// hostName returns the form of a host without its port.
func hostName(name string) (string, bool) {
	if strings.HasPrefix(name, "[") {
		addr, err := netip.ParseAddr(name[1 : len(name)-1])
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", false
		}
		if form := addr.String(); form != name[1:len(name)-1] {
			return "[" + form + "]", true
		}
		return name, true
	}
	name = strings.TrimSuffix(name, ".")
	if !canon.Only(name, "-._") || name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, "..") {
		return "", false
	}
	return strings.ToLower(name), true
}

// portOf returns the form of what follows a host: nothing for the port of the scheme.
func portOf(port string, https bool) (string, bool) {
	if port = strings.TrimPrefix(port, ":"); port == "" {
		return "", true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil:
		return "", false
	case n == 443 && https, n == 80 && !https:
		return "", true
	case port[0] == '0':
		port = strconv.FormatUint(n, 10)
	}
	return port, true
}

// HostOf returns an authority without its port. An IPv6 address keeps its brackets.
func HostOf(authority string) string {
	if authority == "" {
		return ""
	}
	name, _, _ := splitPort(authority)
	return name
}

// Pattern returns a pattern of [http.ServeMux] with its host in the form of [Authority], and that
// host; it is empty if the pattern is for all hosts. Whether the rest of it is a pattern is left to
// ServeMux.
func Pattern(pattern string) (form, host string, err error) {
	before := strings.IndexAny(pattern, " \t") + 1
	rest := strings.TrimLeft(pattern[before:], " \t")
	before = len(pattern) - len(rest)
	slash := strings.IndexByte(rest, '/')
	if slash <= 0 {
		return pattern, "", nil
	}
	sent := rest[:slash]
	host, ok := Authority(sent, false)
	if !ok {
		return "", "", fmt.Errorf("%q is no host: write a domain name or an address, in brackets if it is IPv6", sent)
	}
	if name := HostOf(sent); name != sent {
		return "", "", errors.New("hosts are matched without their port: write " + HostOf(host) + rest[slash:])
	}
	return pattern[:before] + host + rest[slash:], host, nil
}

var (
	badHost = Fault{badTarget, "The request's host is none that a server can have. Send a domain name or an IP address in Host or :authority, " +
		"with a port if it is not the scheme's own."}
	twoHosts = Fault{badTarget, "The request names another host in Host than in :authority (RFC 9113 section 8.3.1). Send :authority alone."}
)

// authority returns the form of the host that a request is for. HTTP/2 alone can name a second one,
// which net/http leaves in the header; in HTTP/1 an absolute-form replaces Host (RFC 9112 section
// 3.2.2).
func authority(r *http.Request) (string, *Fault) {
	sent, https := r.Host, r.TLS != nil
	if r.ProtoMajor < 2 {
		if form, ok := Authority(sent, https); ok {
			return form, nil
		}
		return "", &badHost
	}
	form, ok := Authority(strings.Trim(sent, whitespace), https)
	if !ok {
		return "", &badHost
	}
	for _, line := range r.Header["Host"] {
		if other, ok := Authority(strings.Trim(line, whitespace), https); !ok || other != form {
			return "", &twoHosts
		}
	}
	return form, nil
}
