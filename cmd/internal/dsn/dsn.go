// Package dsn opens the store a DSN names.
package dsn

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stet-dev/stet/internal/spell"
)

// DSN is a store's address, taken apart.
type DSN struct {
	Scheme  string // one of schemes
	Path    string // of a directory or file; relative to the working directory
	URL     string // of a server, with its password
	Listen  string // postgres: where to be told of changes, if not there
	MaxKeys int    // memory: 0 is the store's default
	Forget  bool   // a server that may forget records is taken
	Copies  bool   // redis: it holds copies of records, under names of their own
	Given   string // the flag that names it to an operator, where --store and the address do not, such as --config stet.yaml
	Faulty  bool   // wrapped so that it can be made to fail; only in builds for tests
}

// Schemes that builds can open.
var schemes = []string{"memory", "file", "sqlite", "postgres", "mysql", "redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"}

// forms of the addresses of those.
const forms = "memory:, file:DIR, sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE, mysql://USER:PASSWORD@HOST/DATABASE, redis://HOST, redis+cluster://HOST,HOST and redis+sentinel://HOST,HOST/NAME"

// ErrLater: a known setting that this build cannot act on. It is refused, never ignored.
var ErrLater = errors.New("not in this build yet")

// Parse takes a DSN apart. The error says what is wrong with it, without quoting more than the
// scheme: the rest may hold a password.
func Parse(s string) (DSN, error) {
	var d DSN
	rest := s
	if inner, ok := strings.CutPrefix(s, faultPrefix); ok && faultsBuilt {
		d.Faulty, rest = true, inner
	}
	scheme, rest, ok := strings.Cut(rest, ":")
	if !ok {
		return d, fmt.Errorf("a store's address begins with memory:, file:, sqlite:, postgres:, mysql: or redis:, as in sqlite:stet.db")
	}
	d.Scheme = strings.ToLower(scheme)
	switch d.Scheme {
	case "memory":
		return d, d.memory(rest)
	case "file", "sqlite":
		return d, d.path(rest)
	case "postgresql":
		d.Scheme = "postgres"
		return d, d.server(rest)
	case "postgres", "mysql":
		return d, d.server(rest)
	case "redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel":
		return d, d.redis(rest)
	}
	return d, fmt.Errorf("there is no store %q%s; there are %s", scheme+":", spell.Hint(d.Scheme, schemes), forms)
}

func (d *DSN) memory(rest string) error {
	path, query, _ := strings.Cut(rest, "?")
	if path != "" {
		return errors.New("memory: has no path; its only parameter is ?max_keys=1000000")
	}
	values, err := parameter(query, "max_keys", "memory:",
		errors.New("the parameters of memory: cannot be read; write memory:?max_keys=1000000"))
	if err != nil || values == nil {
		return err
	}
	if d.MaxKeys, err = strconv.Atoi(values[0]); err != nil || d.MaxKeys < 1 || len(values) > 1 {
		return errors.New("max_keys is one whole number of at least 1")
	}
	return nil
}

// parameter returns the values of the only parameter that whose address can have; nil: it has none.
// The error is unreadable, or names another parameter.
func parameter(query, name, whose string, unreadable error) ([]string, error) {
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil, unreadable
	}
	for other := range params {
		if other != name {
			return nil, fmt.Errorf("%s has no parameter %q: its only one is %s", whose, other, name)
		}
	}
	return params[name], nil
}

func (d *DSN) path(rest string) error {
	switch {
	case rest == "" && d.Scheme == "sqlite":
		return errors.New("sqlite: needs a file, as in sqlite:stet.db")
	case rest == "":
		return fmt.Errorf("%[1]s: needs a directory, as in %[1]s:stet-records", d.Scheme)
	case rest == ":memory:":
		return errors.New("for records in memory use memory: instead")
	case strings.ContainsAny(rest, "?#\x00"):
		return fmt.Errorf("%s: takes a path and no parameters", d.Scheme)
	}
	d.Path = rest
	return nil
}

// Place is where a store in files is, whatever the working directory: "" for others.
func (d DSN) Place() string {
	if d.Path == "" {
		return ""
	}
	at, err := filepath.Abs(d.Path)
	if err != nil {
		return d.Path
	}
	return at
}

// Persistent reports whether records outlive the process.
func (d DSN) Persistent() bool { return d.Scheme != "memory" }

// Shared reports whether several hosts can use the store at a time.
func (d DSN) Shared() bool { return d.URL != "" }

// String is the DSN without what is secret in it; fit for a log.
func (d DSN) String() string {
	s := d.Scheme + ":" + d.Path
	if d.isRedis() {
		s = d.redisName()
	} else if u, err := url.Parse(d.URL); err == nil && d.URL != "" {
		s = u.Redacted()
	}
	if d.MaxKeys != 0 {
		s += "?max_keys=" + strconv.Itoa(d.MaxKeys)
	}
	if d.Faulty {
		s = faultPrefix + s
	}
	return s
}

// Flag is what names the store on a command line; a password is left out.
func (d DSN) Flag() string {
	if d.Given != "" {
		return d.Given
	}
	s := d.String()
	if strings.ContainsAny(s, " &?;*$()<>|\\\"'") {
		s = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return "--store " + s
}

const faultPrefix = "fault+"
