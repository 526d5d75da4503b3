package stethttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const anyOrigin = "*"

// validOrigins names the first origin that no browser sends, and why.
func validOrigins(origins []string) error {
	for _, o := range origins {
		if o == anyOrigin {
			if len(origins) > 1 {
				return errors.New(`"*" allows every origin: list it alone`)
			}
			continue
		}
		if reason := notAnOrigin(o); reason != "" {
			return fmt.Errorf("%q is not an origin: %s; an origin is spelled as in https://shop.example or http://localhost:5173", o, reason)
		}
	}
	return nil
}

func notAnOrigin(o string) string {
	u, err := url.Parse(o)
	switch {
	case err != nil, u.Scheme == "", u.Host == "":
		return "it needs a scheme and a host"
	case u.User != nil, u.Path != "", u.RawQuery != "", u.ForceQuery, strings.ContainsRune(o, '#'):
		return "it ends with the host, or its port"
	case o != strings.ToLower(o), strings.ContainsFunc(o, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '*' }):
		return "browsers send it in lower case and in ASCII, and patterns are not known"
	case u.Scheme == "https" && u.Port() == "443", u.Scheme == "http" && u.Port() == "80", strings.HasSuffix(u.Host, ":"):
		return "browsers leave the scheme's own port out"
	}
	return ""
}

// exposed are the headers of the layer's own answers that a script may read.
const exposed = "Retry-After, RateLimit, RateLimit-Policy, Link, WWW-Authenticate, Preference-Applied, " +
	"Idempotency-Key, Idempotency-Expires, Idempotent-Replayed, Idempotent-Replay"

// cors lets scripts of the request's origin read an answer of the layer itself.
func (c *Config) cors(h http.Header, r *http.Request) {
	if len(c.AllowOrigins) == 0 {
		return
	}
	h.Add("Vary", "Origin")
	origin := anyOrigin
	if !slices.Contains(c.AllowOrigins, anyOrigin) {
		lines := r.Header["Origin"]
		if len(lines) != 1 || !slices.Contains(c.AllowOrigins, lines[0]) {
			return
		}
		origin = lines[0]
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	names := exposed
	if c.KeyHeader != "" && c.KeyHeader != defaultKeyHeader {
		names += ", " + c.KeyHeader
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", names)
}
