package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-dev/stet/internal/canon"
	"github.com/stet-dev/stet/internal/door"
)

// trusts reports whether an address is that of a trusted proxy, whose statements about earlier
// senders are believed.
func (g *Gateway) trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(g.cfg.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// client returns the address that a request came from: its sender or, if that is a trusted proxy,
// the last address in X-Forwarded-For that is not one. What stands before that was not written by a
// trusted proxy.
func (g *Gateway) client(r *http.Request) netip.Addr {
	addr := door.Sender(r)
	if !g.trusts(addr) {
		return addr
	}
	said := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, s := range slices.Backward(said) {
		before, err := netip.ParseAddr(strings.TrimSpace(s))
		if err != nil {
			break
		}
		if addr = before; !g.trusts(addr) {
			break
		}
	}
	return addr
}

// forwarded reports whether proxies use a field to describe earlier senders.
func forwarded(name string) bool {
	return name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-")
}

// setForwarded adds the sender to X-Forwarded-For and Forwarded (RFC 7239), after what trusted
// proxies have said there. X-Forwarded-Host and -Proto keep what the first trusted proxy said. Via
// counts the hops (RFC 9110 section 7.6.3), so it is appended to for any sender.
func (out *fields) setForwarded(in *http.Request, trusted bool) {
	client, _, err := net.SplitHostPort(in.RemoteAddr)
	if err != nil {
		client = "unknown" // such as for a unix socket (RFC 7239 section 6.2)
	}
	proto := "http"
	if in.TLS != nil {
		proto = "https"
	}
	values := [...]string{client, "for=" + node(client) + ";host=" + quoted(in.Host) + ";proto=" + proto, in.Host, proto,
		via(in.ProtoMajor, in.ProtoMinor)}
	var said http.Header
	if trusted {
		said = in.Header
	}
	out.set("X-Forwarded-For", joined(said["X-Forwarded-For"], values[0:1:1]))
	out.set("Forwarded", joined(said["Forwarded"], values[1:2:2]))
	out.set("X-Forwarded-Host", first(said["X-Forwarded-Host"], values[2:3:3]))
	out.set("X-Forwarded-Proto", first(said["X-Forwarded-Proto"], values[3:4:4]))
	out.set("Via", joined(in.Header["Via"], values[4:5:5]))
}

// maxHops is how many gateways a request may have come through. One whose upstream leads back to it
// finds the pseudonym in Via each time (RFC 9110 section 7.6.3), and would send the request until
// no connection is left. Gateways in a row have the same pseudonym, and rows are short.
const maxHops = 8

// hops returns how many gateways have written into the lines of Via.
func hops(lines []string) (n int) {
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			if _, by, ok := strings.Cut(strings.TrimSpace(member), " "); ok && strings.TrimSpace(by) == pseudonym {
				n++
			}
		}
	}
	return n
}

const pseudonym = "stet"

// via returns what the gateway adds to Via: the HTTP version that the message came with, and the
// pseudonym.
func via(major, minor int) string {
	switch {
	case major == 1 && minor == 1:
		return "1.1 " + pseudonym
	case major == 1:
		return "1.0 " + pseudonym
	}
	return strconv.Itoa(major) + "." + strconv.Itoa(minor) + " " + pseudonym
}

// joined puts into value, which has one line, the prior lines before its own.
func joined(prior, value []string) []string {
	if len(prior) > 0 {
		value[0] = strings.Join(prior, ", ") + ", " + value[0]
	}
	return value
}

// first returns the prior lines or, if there are none, value.
func first(prior, value []string) []string {
	if len(prior) > 0 {
		return prior
	}
	return value
}

// node writes an address as in RFC 7239 section 6: IPv6 in brackets and quotes.
func node(addr string) string {
	if strings.IndexByte(addr, ':') >= 0 {
		return `"[` + addr + `]"`
	}
	return addr
}

// quoted writes a token as it is, and anything else as a quoted-string (RFC 9110 section 5.6.4).
func quoted(s string) string {
	if canon.Only(s, ".-") {
		return s
	}
	return `"` + escaper.Replace(s) + `"`
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
