package dsn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every kind of store that can be opened is named where a user looks for one: in the error about
// an unknown one, in the setting and the flag, and in docs/stores.md. A TLS form goes with its
// plain one. No other store is named there (X02).
func TestEverySchemeIsNamed(t *testing.T) {
	places := map[string]string{"forms": forms}
	for _, file := range []string{"../config/file.go", "../../stet/settings.go", "../../../docs/stores.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasSuffix(file, ".go") || strings.Contains(line, `yaml:"dsn"`) || strings.Contains(line, `sets:"store.dsn"`) {
				places[file] += line
			}
		}
	}
	for place, text := range places {
		for _, scheme := range schemes {
			scheme = strings.Replace(scheme, "rediss", "redis", 1)
			if !strings.Contains(text, scheme+":") {
				t.Errorf("%s does not name %s:", place, scheme)
			}
		}
		for _, named := range address.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(schemes, named[1]) {
				t.Errorf("%s names %s:, which cannot be opened", place, named[1])
			}
		}
	}
}

// address finds the scheme of a store's address in a text, as in "file:DIR" and "redis://HOST", and
// of one that a table of a page is about.
var address = regexp.MustCompile("\\b([a-z+]+):(?:DIR|PATH|//|` \\|)")

// Every scheme that is read can be opened: an address of a server that is not there is an error.
func TestEverySchemeIsOpened(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, scheme := range schemes {
		rest, embedded := "//u:p@127.0.0.1:1/name", false
		switch {
		case scheme == "memory":
			rest, embedded = "", true
		case scheme == "file", scheme == "sqlite":
			rest, embedded = filepath.Join(t.TempDir(), "records"), true
		case strings.HasSuffix(scheme, "+cluster"), scheme == "redis", scheme == "rediss":
			rest = "//u:p@127.0.0.1:1"
		}
		d, err := Parse(scheme + ":" + rest)
		if err != nil {
			t.Errorf("%s: %v", scheme, err)
			continue
		}
		ctx := gone
		if embedded {
			ctx = t.Context()
		}
		o, err := d.Open(ctx, Serve)
		if err == nil {
			err = o.Close()
		} else if !embedded && errors.Is(err, ErrUnreachable) {
			err = nil
		}
		if err != nil {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}
