package gateway

import (
	"net"
	"net/http"
	"strings"
)

// setForwarded says for whom the request is forwarded. The client's address is appended to what other proxies have said, in
// X-Forwarded-For and in Forwarded (RFC 7239); X-Forwarded-Host and -Proto keep what the first one said. None of it can be
// trusted further back than the proxy that is trusted: a gateway that clients reach directly passes their claims on.
func setForwarded(out http.Header, in *http.Request) {
	client, _, err := net.SplitHostPort(in.RemoteAddr)
	if err != nil {
		client = "unknown" // RFC 7239 section 6.2: a unix socket, for one
	}
	proto := "http"
	if in.TLS != nil {
		proto = "https"
	}
	values := [...]string{client, "for=" + node(client) + ";host=" + quoted(in.Host) + ";proto=" + proto, in.Host, proto}
	appendTo(out, in.Header["X-Forwarded-For"], "X-Forwarded-For", values[0:1:1])
	appendTo(out, in.Header["Forwarded"], "Forwarded", values[1:2:2])
	first(out, in.Header["X-Forwarded-Host"], "X-Forwarded-Host", values[2:3:3])
	first(out, in.Header["X-Forwarded-Proto"], "X-Forwarded-Proto", values[3:4:4])
}

func appendTo(out http.Header, prior []string, name string, value []string) {
	if len(prior) > 0 {
		value[0] = strings.Join(prior, ", ") + ", " + value[0]
	}
	out[name] = value
}

func first(out http.Header, prior []string, name string, value []string) {
	if len(prior) > 0 {
		value = prior
	}
	out[name] = value
}

// node writes an address as RFC 7239 section 6 has it: IPv6 in brackets and quotes.
func node(addr string) string {
	if strings.IndexByte(addr, ':') >= 0 {
		return `"[` + addr + `]"`
	}
	return addr
}

// quoted writes a token as it is and everything else as a quoted-string (RFC 9110 section 5.6.4).
func quoted(s string) string {
	token := s != ""
	for i := range len(s) {
		c := s[i]
		token = token && ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '-')
	}
	if token {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
