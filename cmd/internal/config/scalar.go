package config

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// plain words need no quotes in YAML; what a parser could take for something else is not one.
var plain = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_./ -]*[A-Za-z0-9_./-])?$`)

// quote writes a text as YAML.
func quote(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(s)
	}
	if plain.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// redact hides the password of a URL-like text, also one that is no proper URL.
func redact(s string) string {
	if u, err := url.Parse(s); err == nil {
		return u.Redacted()
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if at := strings.LastIndex(rest, "@"); ok && at >= 0 {
		return scheme + "://xxxxx@" + rest[at+1:]
	}
	return s
}
