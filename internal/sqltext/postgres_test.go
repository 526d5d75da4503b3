package sqltext

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stet-dev/stet"
)

// Arguments go by the same columns as the statements.
func TestPostgresPlaces(t *testing.T) {
	noted := sample()
	r := noted
	r.Note = nil
	created, err := PostgresCreateArgs(&r.Head, &r.Body)
	if err != nil {
		t.Fatal(err)
	}
	replaced := func(r *stet.Record, b *stet.Body) []any {
		args, err := PostgresReplaceArgs(3, &r.Head, b)
		if err != nil {
			t.Fatal(err)
		}
		return args
	}
	for name, c := range map[string]struct {
		w    PostgresWrite
		args []any
	}{
		"create": {PostgresCreate, created}, "replace": {PostgresReplaceAll, replaced(&r, &r.Body)}, "head": {PostgresReplaceHead, replaced(&r, nil)},
		"note": {PostgresNoteAll, replaced(&noted, &noted.Body)}, "note head": {PostgresNoteHead, replaced(&noted, nil)}, "delete": {PostgresDelete, PostgresDeleteArgs(r.ID, 3)},
	} {
		kinds := map[string]string{"$1": "text", "$2": "text"} // by their places
		for _, m := range regexp.MustCompile(`(\$\d+)::(\w+)`).FindAllStringSubmatch(c.w.One, -1) {
			kinds[m[1]] = m[2]
		}
		if len(c.args)+3 != len(kinds) {
			t.Errorf("%s: %d arguments for %d places, the last three of which say how long to wait and for which store", name, len(c.args), len(kinds))
		}
		for i, arg := range c.args {
			kind := kinds["$"+strconv.Itoa(i+1)]
			ok := arg == nil
			switch arg.(type) {
			case string:
				ok = kind == "text"
			case int64:
				ok = kind == "bigint"
			case []byte:
				ok = kind == "bytea"
			}
			if !ok {
				t.Errorf("%s: argument %d is a %T and no %s", name, i+1, arg, kind)
			}
		}
	}
}

func TestPostgresEscape(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "order-4711": "order-4711", "höst\n": "höst\n", `a\b`: `a\\b`, "a\x00b": `a\x00b`, "\xff\xfe": `\xff\xfe`, `\x00`: `\\x00`,
		"\uFFFD": "\uFFFD",
	} {
		if got := postgresEscape(s); got != want {
			t.Errorf("%q is written %q, want %q", s, got, want)
		}
	}
	for _, s := range []string{`\`, `a\`, `\x`, `\x0`, `\xgg`, `\x41`, `\xFF`, `\n`} { // the store writes none of them
		if got, err := PostgresUnescape(s); err == nil {
			t.Errorf("%q is read as %q", s, got)
		}
	}
}

// Any bytes come back, as text that Postgres takes, and a text is read in one way only (SE-03).
func FuzzPostgresEscape(f *testing.F) {
	for _, s := range []string{"", "k", `\`, `\\`, `\x00`, "\x00", "\xff", "é\xc3", "\uFFFD"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := postgresEscape(s)
		if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
			t.Fatalf("%q is written %q", s, text)
		}
		if got, err := PostgresUnescape(text); err != nil || got != s {
			t.Fatalf("%q comes back as %q, %v", s, got, err)
		}
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return // no column holds it
		}
		if raw, err := PostgresUnescape(s); err == nil && postgresEscape(raw) != s {
			t.Fatalf("%q and %q are both %q", s, postgresEscape(raw), raw)
		}
	})
}

// A row whose text is damaged is refused, and not told.
func TestPostgresUnescapeRow(t *testing.T) {
	row := Row{kind: postgres, scope: "s", key: `secret\`}
	_, err := row.Head(0)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if id := row.ID(); id == (stet.ID{}) {
		t.Error("the name is gone")
	}
}
