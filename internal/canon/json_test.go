package canon

import (
	"bytes"
	"strings"
	"testing"
)

// exactForm returns the exact form of a JSON text, and whether it can be read at all.
func exactForm(src string, drop ...string) (string, bool) {
	var d Doc
	if !d.Parse([]byte(src)) {
		return "", false
	}
	for _, p := range drop {
		d.Drop(mustPointer(p))
	}
	return written(d.WriteExact), true
}

func written(write func(*Writer)) string {
	var b bytes.Buffer
	w := NewWriter(&b)
	write(w)
	w.Flush()
	return b.String()
}

func mustPointer(s string) Pointer {
	p, err := ParsePointer(s)
	if err != nil {
		panic(err)
	}
	return p
}

// The ids are those of the fingerprint's cases, FP-01 … FP-12, whose JSON is decided here.
func TestExactGroups(t *testing.T) {
	for _, g := range []struct {
		name string
		same [][]string // texts of one list are the same document, texts of two lists are not
	}{
		{"FP-01 order of names", [][]string{{`{"a":1,"b":2}`, `{"b":2,"a":1}`}, {`{"a":2,"b":1}`}}},
		{"FP-02 nested", [][]string{
			{`{"x":{"b":[{"d":1,"c":2}],"a":0},"":null}`, `{"":null,"x":{"a":0,"b":[{"c":2,"d":1}]}}`},
			{`{"x":{"b":[{"d":1},{"c":2}],"a":0},"":null}`}}},
		{"FP-03 white space", [][]string{{`[1,{"a":[]},{}]`, " [ 1\t,\r\n{ \"a\" : [ ] } , { } ] \n"}}},
		{"FP-04 escapes", [][]string{
			{`"é"`, `"\u00e9"`, `"\u00E9"`}, {`"a/b\\"`, `"a\/b\u005c"`}, {`"A"`, `"\u0041"`},
			{`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`}, {`"\b\f\n\r\t\""`, `"\u0008\u000c\u000a\u000d\u0009\u0022"`}, {`"\u0000"`}, {`""`}}},
		{"FP-04 escaped names", [][]string{{`{"é":1,"z":2}`, `{"z":2,"\u00e9":1}`}}},
		{"FP-05 numbers", [][]string{
			{"1", "1.0", "1e0", "10e-1", "1E+0", "0.1e1", "1.00000", "100e-2", "0.001e+0003"},
			{"0", "-0", "0.0", "-0.0e10", "0e99999999999999999999", "-0e-5"}, {"-1", "-1.0", "-10e-1"},
			{"10", "1e1", "1.0e1"}, {"1000000000000000000000", "1e21"}, {"12.50", "12.5", "1250e-2"}, {"0.125", "125e-3"}, {"105"}, {"15"}}},
		{"FP-06 exact decimals", [][]string{
			{"9007199254740992"}, {"9007199254740993", "9007199254740993.0", "9007199254740.993e3"},
			{"0.1"}, {"0.10000000000000000001"}, {"333333333.33333329"}, {"333333333.3333333"}, {"1e400"}, {"1e401"}, {"-1e400"}}},
		{"FP-07 arrays", [][]string{{"[1,2]"}, {"[2,1]"}, {"[1,2,2]"}, {"[[1,2]]"}, {"[[1],2]"}, {"[[1],[2]]"}, {"[]"}, {"[[]]"}}},
		{"FP-09 kinds", [][]string{
			{`{"a":null}`}, {`{}`}, {`{"a":false}`}, {`{"a":""}`}, {`"1"`}, {"1"}, {"[1]"}, {"true"}, {`"true"`}, {"null"}, {`"null"`}, {"[]"}}},
		{"FP-10 no normalisation", [][]string{{`"\u00c5"`, `"Å"`}, {`"A\u030a"`}, {`"\u212b"`}}},
		{"FP-12 huge exponents", [][]string{
			{"1e999999999999999999999", "10e999999999999999999998", "0.1e1000000000000000000000", "0.001e1000000000000000000002"},
			{"1e1000000000000000000000"}, {"1e-999999999999999999999", "10e-1000000000000000000000"}, {"-1e999999999999999999999"},
			{"1e9999999999999999999", "0.1e10000000000000000000"}, {"1e-8446744073709551617"}, // the same modulo 2^64
			{"1e999999999999999999", "0.1e1000000000000000000"}, {"1e1000000000000000000", "10e999999999999999999"}}},
		{"FP-28 delimiters", [][]string{
			{`{"a":"x","b":"y"}`}, {`{"a":"x,b:y"}`}, {`{"a":"x\",\"b\":\"y"}`}, {`["a","b"]`}, {`["a,b"]`}, {`["a\",\"b"]`},
			{`["",""]`}, {`[""]`}, {`["s\u0001a"]`}, {`["s","a"]`}, {`[{"a":1},2]`}, {`[{"a":1,"b":2}]`}, {`["{}"]`}, {`[{}]`}}},
	} {
		t.Run(g.name, func(t *testing.T) {
			forms := map[string]int{}
			for i, list := range g.same {
				for _, src := range list {
					form, ok := exactForm(src)
					if !ok {
						t.Fatalf("%s is refused", src)
					}
					if form == "" {
						t.Fatalf("%s has no form", src)
					}
					if j, seen := forms[form]; seen && j != i {
						t.Errorf("%s is the same as %s", src, g.same[j][0])
					} else if !seen && src != list[0] {
						t.Errorf("%s is not the same as %s", src, list[0])
					}
					forms[form] = i
				}
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	deepObject := func(n int) string { return strings.Repeat(`{"":`, n) + "0" + strings.Repeat("}", n) }
	for _, c := range []struct {
		name string
		good bool
		src  string
	}{
		{"FP-08 repeated name", false, `{"a":1,"a":2}`},
		{"FP-08 repeated by escape", false, `{"a":1,"\u0061":1}`},
		{"FP-08 repeated deep", false, `[{"x":{"b":1,"a":1,"b":1}}]`},
		{"FP-08 repeated long", false, `{"abcdefghi":1,"abcdefgh":1,"abcdefghi":1}`},
		{"FP-08 repeated empty", false, `{"":1,"":2}`},
		{"names with a common start", true, `{"abcdefgh":1,"abcdefghi":1,"abcdefgh\u0000":1,"abc":1,"abc\u0000":1}`},
		{"the same name in two objects", true, `{"a":{"a":1},"b":{"a":1}}`},
		{"FP-11 cut short", false, `{"a":`},
		{"FP-12 lone high surrogate", false, `"\ud800"`},
		{"FP-12 lone high surrogate and text", false, `"\ud800abcdef"`},
		{"FP-12 two high surrogates", false, `"\ud800\ud800"`},
		{"FP-12 lone low surrogate", false, `"\udc00"`},
		{"FP-12 in a name", false, `{"\ud800":1}`},
		{"FP-12 depth at the limit", true, deep(MaxDepth)},
		{"FP-12 depth over the limit", false, deep(MaxDepth + 1)},
		{"FP-12 objects at the limit", true, deepObject(MaxDepth)},
		{"FP-12 objects over the limit", false, deepObject(MaxDepth + 1)},
		{"FP-12 depth 100,000", false, deep(100_000)},
		{"FP-12 depth 100,000 never closed", false, strings.Repeat("[", 100_000)},
		{"as many values as allowed", true, "[0" + strings.Repeat(",0", maxValues-2) + "]"},
		{"one value more", false, "[0" + strings.Repeat(",0", maxValues-1) + "]"},
		{"invalid UTF-8", false, "\"\xff\""},
		{"invalid UTF-8 after an escape", false, "\"\\n\xc3\""},
		{"UTF-8 surrogate", false, "\"\xed\xa0\x80\""},
		{"overlong UTF-8", false, "\"\xc0\xaf\""},
		{"control character", false, "\"a\x1f\""},
		{"line end in a long string", false, "\"abcdefghijklmnop\n\""},
		{"control character after beyond ASCII", false, "\"é\x01\""},
		{"DEL is allowed", true, "\"\x7f\""},
		{"empty", false, ""}, {"only space", false, " \n"}, {"BOM", false, "\ufeff{}"},
		{"trailing data", false, "{} {}"}, {"trailing comma", false, "[1,]"}, {"trailing comma in an object", false, `{"a":1,}`},
		{"leading comma", false, "[,1]"}, {"no comma", false, "[1 2]"}, {"no colon", false, `{"a" 1}`}, {"no value", false, `{"a":}`},
		{"name without quotes", false, "{a:1}"}, {"number as name", false, "{1:1}"}, {"single quotes", false, "'a'"}, {"comment", false, "1 // one"},
		{"never closed string", false, `"abc`}, {"never closed escape", false, `"abc\`}, {"never closed object", false, `{"a":1`},
		{"wrong bracket", false, "[1}"}, {"bracket first", false, "]"}, {"no-break space", false, "\u00a01"}, {"vertical tab", false, "\v1"},
		{"unknown escape", false, `"\x41"`}, {"short escape", false, `"\u12"`}, {"bad digits", false, `"\u12g4"`}, {"escape at the end", false, `"\u1234`},
		{"wrong literal", false, "trub"}, {"short literal", false, "nul"}, {"long literal", false, "nulll"}, {"capitals", false, "True"},
		{"NaN", false, "NaN"}, {"Infinity", false, "-Infinity"}, {"hex", false, "0x1"}, {"plus", false, "+1"}, {"point first", false, ".5"},
		{"point last", false, "1."}, {"leading zero", false, "01"}, {"minus zero one", false, "-01"}, {"only minus", false, "-"},
		{"no exponent", false, "1e"}, {"only a sign", false, "1e+"}, {"two points", false, "1.1.1"}, {"underscore", false, "1_0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, ok := exactForm(c.src); ok != c.good {
				t.Errorf("Parse = %v", ok)
			}
		})
	}
}

// Strings are read eight bytes at a time: whatever ends one must be seen at each place of a word,
// with each rest behind it.
func TestStringPositions(t *testing.T) {
	for before := range 20 {
		for after := range 20 {
			head, tail := strings.Repeat("a", before), strings.Repeat("b", after)
			for _, special := range []string{`\n`, `\\`, `\"`, "é", "\u07ff\u20ac", "😀", "\x7f", `\u00e9é`, `é\u00e9`} {
				src := head + special + tail
				form, ok := exactForm(`["` + src + `"]`)
				plain := strings.NewReplacer(`\n`, "\n", `\\`, `\`, `\"`, `"`, `\u00e9`, "é").Replace(src)
				if want := "[s" + string(rune(len(plain))) + plain + "]"; !ok || form != want {
					t.Fatalf("%q: got %q, %v, want %q", src, form, ok, want)
				}
			}
			for _, bad := range []string{"\x00", "\x1f", "\n", "\xff", `\q`, "é\x02"} {
				if _, ok := exactForm(`["` + head + bad + tail + `"]`); ok {
					t.Fatalf("%q was read", head+bad+tail)
				}
			}
		}
	}
}

func TestManyMembers(t *testing.T) {
	// More members than are sorted by insertion, with names that share their first eight bytes or
	// all but length.
	name := func(i int) string {
		return []string{"k", "longer-name-", "longer-n", "é", "\uff61", "😀"}[i%6] + strings.Repeat("x", i/6)
	}
	const n = 300
	var up, down strings.Builder
	for i := range n {
		up.WriteString(`,"` + name(i) + `":` + string(rune('0'+i%10)))
		down.WriteString(`,"` + name(n-1-i) + `":` + string(rune('0'+(n-1-i)%10)))
	}
	a, ok := exactForm("{" + up.String()[1:] + "}")
	b, _ := exactForm("{" + down.String()[1:] + "}")
	if !ok || a != b {
		t.Error("the order of members matters")
	}
	for i := range n {
		if _, ok := exactForm("{" + up.String()[1:] + `,"` + name(i) + `":0}`); ok {
			t.Fatalf("%q was repeated, and read", name(i))
		}
	}
}

// A Doc is used again: nothing of one text may show in the next.
func TestDocReuse(t *testing.T) {
	var d Doc
	for _, src := range []string{`{"a":[1,2,{"b":"\n"}],"c":{}}`, `[`, `{"a":{"b":{"x":1,"y":`, `{}`, `{"z":1,"a":2}`, "\"\\u00e9", `"\t"`} {
		ok := d.Parse([]byte(src))
		want, good := exactForm(src)
		if ok != good || ok && written(d.WriteExact) != want {
			t.Errorf("%s: another result when used again", src)
		}
		if ok && len(d.members) > 0 {
			t.Errorf("%s: members of an earlier text are kept", src)
		}
		d.Release()
	}
}
