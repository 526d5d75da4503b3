package stet

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Any value written again, with other white space, order, escapes and number spellings, is the
// same; any other value is not.
func TestFingerprintProperty(t *testing.T) {
	f, _ := Recipe{}.Compile()
	r := rand.New(rand.NewPCG(7, 7))
	seen := map[[32]byte]string{}
	for range 3000 {
		v := randomValue(r, 4)
		plain, _ := json.Marshal(v)
		want := f.Fingerprint(with(body(string(plain))))
		for range 3 {
			if again := respelled(r, v); !f.Fingerprint(with(body(again))).equal(want) {
				t.Fatalf("%s is not %s", again, plain)
			}
		}
		if before, ok := seen[want.Sum]; ok && before != string(plain) {
			t.Fatalf("%s is %s", plain, before)
		}
		seen[want.Sum] = string(plain)
		if other := altered(r, v); f.Fingerprint(with(body(respelled(r, other)))).equal(want) {
			text, _ := json.Marshal(other)
			t.Fatalf("%s is %s", text, plain)
		}
	}
}

func randomValue(r *rand.Rand, depth int) any {
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	switch r.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return r.IntN(2000) - 1000
	case 3:
		return randomText(r)
	case 4:
		return json.Number(fmt.Sprintf("%d.%02d", r.IntN(100), 1+r.IntN(9)))
	case 5:
		a := make([]any, r.IntN(4))
		for i := range a {
			a[i] = randomValue(r, depth-1)
		}
		return a
	default:
		o := map[string]any{}
		for range r.IntN(6) {
			o[randomText(r)] = randomValue(r, depth-1)
		}
		return o
	}
}

func randomText(r *rand.Rand) string {
	runes := []rune("aaabcxyz \"\\/\n\x00é€😀\uff61")
	s := make([]rune, r.IntN(12))
	for i := range s {
		s[i] = runes[r.IntN(len(runes))]
	}
	return string(s)
}

// altered returns v with one value in it changed.
func altered(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case []any:
		if len(v) == 0 {
			return []any{nil}
		}
		c := slices.Clone(v)
		i := r.IntN(len(c))
		c[i] = altered(r, c[i])
		return c
	case map[string]any:
		c := maps.Clone(v)
		for k := range c {
			if r.IntN(2) == 0 {
				c[k] = altered(r, c[k])
			} else {
				c[k+"_"], c[k] = c[k], "moved"
			}
			return c
		}
		return map[string]any{"": nil}
	case nil:
		return false
	case bool:
		return !v
	case int:
		return v + 1
	case json.Number:
		return v + "1"
	case string:
		return v + "."
	}
	panic("unknown kind")
}

// respelled writes v in one of its many ways.
func respelled(r *rand.Rand, v any) string {
	space := func() string { return []string{"", " ", "\n\t", "\r\n  "}[r.IntN(4)] }
	var b strings.Builder
	b.WriteString(space())
	switch v := v.(type) {
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(respelled(r, e))
		}
		b.WriteByte(']')
	case map[string]any:
		names := slices.Collect(maps.Keys(v)) // in random order
		b.WriteByte('{')
		for i, k := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(respelled(r, k) + ":" + respelled(r, v[k]))
		}
		b.WriteByte('}')
	case string:
		b.WriteByte('"')
		for _, c := range v {
			switch {
			case c > 0xffff && r.IntN(2) == 0:
				fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff)
			case c <= 0xffff && (c < ' ' || r.IntN(4) == 0):
				fmt.Fprintf(&b, `\u%04x`, c)
			case c == '"' || c == '\\' || c == '/' && r.IntN(2) == 0:
				b.WriteString(`\` + string(c))
			default:
				b.WriteRune(c)
			}
		}
		b.WriteByte('"')
	case int:
		switch n := r.IntN(4); {
		case n == 0:
			fmt.Fprintf(&b, "%d.0", v)
		case n == 1 && v != 0: // 0000e-3 is no JSON number
			fmt.Fprintf(&b, "%d000e-3", v)
		case n == 2:
			fmt.Fprintf(&b, "%dE+00", v)
		default:
			fmt.Fprint(&b, v)
		}
	case json.Number:
		b.WriteString([]string{string(v), string(v) + "0", string(v) + "e0"}[r.IntN(3)])
	default:
		fmt.Fprint(&b, map[any]string{nil: "null", true: "true", false: "false"}[v])
	}
	b.WriteString(space())
	return b.String()
}
