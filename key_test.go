package stet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
)

func TestKeySyntax(t *testing.T) {
	long := strings.Repeat("a", 256)
	for _, c := range []struct {
		id    string
		rule  KeyRule
		lines []string
		want  string // "" means refused
	}{
		{"KS-01", KeyRule{}, []string{`"8e03978e-40d5-43e8-bc93-6894a57f9324"`}, "8e03978e-40d5-43e8-bc93-6894a57f9324"},
		{"KS-02", KeyRule{}, []string{`8e03978e-40d5-43e8-bc93-6894a57f9324`}, "8e03978e-40d5-43e8-bc93-6894a57f9324"},
		{"KS-03", KeyRule{}, []string{`k3`}, "k3"},
		{"KS-04 uuid", KeyRule{Syntax: SFString}, []string{`8e03978e-40d5`}, ""},
		{"KS-04 token", KeyRule{Syntax: SFString}, []string{`abc`}, ""},
		{"KS-04 integer", KeyRule{Syntax: SFString}, []string{`42`}, ""},
		{"KS-04 boolean", KeyRule{Syntax: SFString}, []string{`?1`}, ""},
		{"KS-04 bytes", KeyRule{Syntax: SFString}, []string{`:YWJj:`}, ""},
		{"KS-04 display", KeyRule{Syntax: SFString}, []string{`%"x"`}, ""},
		{"KS-04 single quotes", KeyRule{Syntax: SFString}, []string{`'k'`}, ""},
		{"KS-05 empty", KeyRule{}, []string{``}, ""},
		{"KS-05 empty string", KeyRule{}, []string{`""`}, ""},
		{"KS-05 blank", KeyRule{}, []string{`"   "`}, ""},
		{"KS-05 opaque blank", KeyRule{Syntax: Opaque}, []string{`  `}, ""},
		{"KS-06 255", KeyRule{}, []string{`"` + long[:255] + `"`}, long[:255]},
		{"KS-06 256", KeyRule{}, []string{`"` + long + `"`}, ""},
		{"KS-07", KeyRule{Syntax: Opaque, MaxLen: 200}, []string{long[:201]}, ""},
		{"KS-08", KeyRule{MaxLen: 1024}, []string{`"` + strings.Repeat("b", 1024) + `"`}, strings.Repeat("b", 1024)},
		{"KS-09 quote", KeyRule{}, []string{`"a\"b"`}, `a"b`},
		{"KS-09 backslash", KeyRule{}, []string{`"a\\b"`}, `a\b`},
		{"KS-10 escape", KeyRule{}, []string{`"a\,b"`}, ""},
		{"KS-10 open", KeyRule{}, []string{`"abc`}, ""},
		{"KS-10 escaped end", KeyRule{}, []string{`"abc\"`}, ""},
		{"KS-10 open escape", KeyRule{}, []string{`"abc\`}, ""},
		{"KS-10 garbage", KeyRule{}, []string{`"a" b`}, ""},
		{"KS-10 list", KeyRule{}, []string{`"a",`}, ""},
		{"KS-11 quoted", KeyRule{}, []string{`"füü"`}, ""},
		{"KS-11 bare", KeyRule{}, []string{`café`}, ""},
		{"KS-11 bytes", KeyRule{}, []string{"\xff\xfe"}, ""},
		{"KS-11 opaque", KeyRule{Syntax: Opaque}, []string{"café"}, ""},
		{"KS-13 tab", KeyRule{}, []string{"\"a\tb\""}, ""},
		{"KS-13 fold in a bare key", KeyRule{}, []string{"a b"}, ""},
		{"KS-13 fold in a quoted key", KeyRule{}, []string{`"a b"`}, "a b"},
		{"KS-14 two", KeyRule{}, []string{`"a"`, `"b"`}, ""},
		{"KS-14 same", KeyRule{}, []string{`a`, `a`}, ""},
		{"KS-14 list", KeyRule{}, []string{`a, b`}, ""},
		{"KS-15", KeyRule{}, []string{`"k15";x;y="z"`}, "k15"},
		{"opaque keeps quotes", KeyRule{Syntax: Opaque}, []string{`"k"`}, `"k"`},
		{"too short", KeyRule{MinLen: 16}, []string{`short`}, ""},
	} {
		got, err := c.rule.Parse(c.lines)
		if string(got) != c.want && err == nil || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q gives %q, %v; want %q", c.id, c.lines, string(got), err, c.want)
		}
		ke := new(KeyError)
		if err != nil && !errors.As(err, &ke) {
			t.Errorf("%s: the error is a %T", c.id, err)
		}
	}
}

// TestQuotedByteByByte holds the lenient and the strict syntax against httpsfv: every byte, alone
// and escaped, in a string.
func TestQuotedByteByByte(t *testing.T) { // KS-18
	for c := range 256 {
		for _, v := range []string{`"a` + string([]byte{byte(c)}) + `b"`, `"a\` + string([]byte{byte(c)}) + `b"`} {
			item, ferr := httpsfv.UnmarshalItem([]string{v})
			want, isString := "", false
			if ferr == nil {
				want, isString = item.Value.(string)
			}
			for _, syntax := range []Syntax{Lenient, SFString} {
				got, err := KeyRule{Syntax: syntax}.Parse([]string{v})
				if (err == nil) != isString || err == nil && string(got) != want {
					t.Errorf("%q: %q, %v; httpsfv: %q, %v", v, string(got), err, want, ferr)
				}
			}
		}
	}
}

func TestKeyNeverPrints(t *testing.T) { // SE-07, T1
	const canary = "canary-key-0123456789"
	k := Key(canary)
	id := ID{Scope: "s", Key: k}
	r := Record{Head: Head{ID: id}}
	var out bytes.Buffer
	for _, v := range []any{k, &k, id, &id, []Key{k}, map[Key]int{k: 1}, r, r.Head, Event{ID: id}, struct{ K Key }{k}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		if _, isMap := v.(map[Key]int); !isMap { // encoding/json asks no map key how it wants to be written
			_ = json.NewEncoder(&out).Encode(struct{ V any }{v})
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "k", k, "id", id)
	}
	for _, leak := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary)} {
		if i := strings.Index(out.String(), leak); i >= 0 {
			t.Fatalf("a key was printed: …%s…", out.String()[max(0, i-80):i+len(leak)])
		}
	}
}

func TestWeakKeys(t *testing.T) { // C13
	for key, want := range map[Key]bool{"1": true, "order-12": true, "aaaaaaaaaaaaaaaaaaaa": true, "8e03978e-40d5-43e8-bc93-6894a57f9324": false} {
		if key.Weak() != want {
			t.Errorf("%s: weak is %v", string(key), key.Weak())
		}
	}
}

func FuzzKey(f *testing.F) {
	for _, seed := range []string{`"k"`, `k`, `"a\"b"`, `"k";a=1`, `""`, "\"\\", "a,b", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		k, err := KeyRule{}.Parse([]string{line})
		if err != nil {
			if strings.Contains(err.Error(), line) && len(line) > 8 {
				t.Errorf("the error quotes the key: %v", err)
			}
			return
		}
		for _, syntax := range []Syntax{Lenient, SFString} { // what is echoed is read as the same key
			again, err := KeyRule{Syntax: syntax}.Parse([]string{k.Quote()})
			if err != nil || again != k {
				t.Errorf("%q is echoed as %s, which reads as %q, %v", line, k.Quote(), string(again), err)
			}
		}
	})
}
