package stet

import (
	"regexp"
	"strings"
	"testing"
)

// grammar states RFC 9651 section 3.3.3 once more, as a regular expression: sf-string = DQUOTE *(
// unescaped / "\" ( DQUOTE / "\" ) ) DQUOTE, then parameters with values that these tests use.
// Whitespace around it is no part of the value (RFC 9110 section 5.5).
var grammar = regexp.MustCompile(`^[ \t]*"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"((?:; *[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"|-?[0-9]{1,15}|[A-Za-z*][A-Za-z0-9:/!#$%&'*+.^_|~` + "`" + `-]*|\?[01]))?)*)[ \t]*$`)

var unescape = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

func TestKeyGrammar(t *testing.T) { // KS-01, KS-09, KS-10, KS-11, KS-13, KS-15, KS-18: every byte, at every place
	var lines []string
	for c := range 256 {
		b := string([]byte{byte(c)})
		lines = append(lines, `"`+b+`"`, `"a`+b+`"`, `"`+b+`a"`, `"a\`+b+`b"`, `"\`+b+`"`, `"a"`+b, `"a"`+b+`x`, `"a";`+b, `"a";x`+b+`1`, b+`"a"`, `"a`+b)
	}
	for _, line := range lines {
		parts := grammar.FindStringSubmatch(line)
		want := ""
		if parts != nil {
			want = unescape.Replace(parts[1])
		}
		ok := parts != nil && strings.Trim(want, " ") != "" // blank keys are refused by policy
		for _, syntax := range []Syntax{Lenient, SFString} {
			if syntax == Lenient && !strings.HasPrefix(strings.TrimLeft(line, " \t"), `"`) {
				continue // a bare key, or none
			}
			got, err := KeyRule{Syntax: syntax}.Parse([]string{line})
			if (err == nil) != ok || err == nil && string(got) != want {
				t.Errorf("syntax %d: %q gives %q, %v; the grammar says %q, %v", syntax, line, string(got), err, want, ok)
			}
		}
	}
}

func TestBareKeyGrammar(t *testing.T) { // KS-02, KS-03, KS-11, KS-13, KS-14: visible ASCII without " , ; \
	for c := range 256 {
		line := "a" + string([]byte{byte(c)}) + "b"
		ok := c > ' ' && c < 0x7f && !strings.ContainsRune(`",;\`, rune(c))
		got, err := KeyRule{}.Parse([]string{line})
		if (err == nil) != ok || ok && string(got) != line {
			t.Errorf("%q gives %q, %v", line, string(got), err)
		}
		if _, err := (KeyRule{Syntax: Opaque}).Parse([]string{line}); (err == nil) != (c >= ' ' && c < 0x7f) {
			t.Errorf("opaque: %q gives %v", line, err)
		}
		if ok {
			if quoted, err := (KeyRule{}).Parse([]string{`"` + line + `"`}); err != nil || quoted != got { // KS-03: both spell one key
				t.Errorf("%q and its quoted spelling are two keys", line)
			}
		}
	}
	if _, err := (KeyRule{}).Parse(nil); err == nil {
		t.Error("no field line is a key")
	}
}

func TestKeysAreCaseSensitive(t *testing.T) { // KS-17
	a, _ := KeyRule{}.Parse([]string{"K17"})
	b, _ := KeyRule{}.Parse([]string{"k17"})
	if a == b {
		t.Error("K17 and k17 are one key")
	}
}

func TestQuotePanicsOnWhatWasNeverParsed(t *testing.T) {
	for _, k := range []Key{"a\r\nInjected: 1", "\x00", "caf\xc3\xa9", "\x7f"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was quoted", string(k))
				}
			}()
			_ = k.Quote()
		}()
	}
}

func TestKeyErrorsDoNotQuoteTheKey(t *testing.T) { // SE-07
	const canary = "canary-0123456789"
	for _, line := range []string{canary + ",", `"` + canary, `"` + canary + `\x"`, canary + "\x00", strings.Repeat(canary, 20)} {
		for _, syntax := range []Syntax{Lenient, SFString, Opaque} {
			_, err := KeyRule{Syntax: syntax, MaxLen: 64}.Parse([]string{line})
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("%v", err)
			}
		}
	}
}
