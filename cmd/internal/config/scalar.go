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

// hidden stands for what is secret.
const hidden = "xxxxx"

// redact hides the password of a URL-like text, also one that is no proper URL.
func redact(s string) string {
	if u, err := url.Parse(s); err == nil {
		if _, has := u.User.Password(); !has {
			return s
		}
		return u.Redacted()
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if at := strings.LastIndex(rest, "@"); ok && at >= 0 {
		return scheme + "://" + hidden + "@" + rest[at+1:]
	}
	return s
}

var placeholder = regexp.MustCompile(`\{\w+\}`)

// redactURL hides what gives access to a URL with placeholders: the user and, of its query, all but
// names and placeholders, because any value of a query may be a token.
func redactURL(s string) string {
	base, query, asked := strings.Cut(s, "?")
	if scheme, rest, ok := strings.Cut(base, "://"); ok {
		host, path, _ := strings.Cut(rest, "/")
		if at := strings.LastIndex(host, "@"); at >= 0 {
			base = scheme + "://" + hidden + host[at:] + strings.Repeat("/", min(1, len(rest)-len(host))) + path
		}
	}
	if !asked {
		return base
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value := "", part
		if at := strings.Index(part, "="); at >= 0 {
			name, value = part[:at+1], part[at+1:]
		}
		if open := strings.Join(placeholder.FindAllString(value, -1), ""); open != value {
			parts[i] = name + hidden + open
		}
	}
	return base + "?" + strings.Join(parts, "&")
}
