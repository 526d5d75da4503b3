package canon

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func jcsText(t testing.TB, src string) string {
	t.Helper()
	var d Doc
	if !d.Parse([]byte(src)) || !d.Doubles() {
		t.Fatalf("%.60s is refused", src)
	}
	return written(d.WriteJCS)
}

// FP-29: the subjects of the six published pairs, and those of RFC 8785 sections 3.2.2 and 3.2.3,
// in words of our own.
func TestJCSVectors(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"arrays keep their order", `[ 56, { "d" : true , "10" : null , "1":[ ] } ]`, `[56,{"1":[],"10":null,"d":true}]`},
		{"accented names by code unit", `{"pêche":"g","péché":"h","peach":"j","sin":"k","pecher":"l"}`,
			`{"peach":"j","pecher":"l","péché":"h","pêche":"g","sin":"k"}`},
		{"structures", `{"1":{"f":{"f":"hi","F":5},"\n":56.0},"10":{},"":"empty","a":{},"111":[{"e":"yes","E":"no"}],"A":{ }}`,
			`{"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{"E":"no","e":"yes"}],"A":{},"a":{}}`},
		{"no normalisation", `{"Unnormalised":"A\u030a"}`, "{\"Unnormalised\":\"A\u030a\"}"},
		{"values", `{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{"names by UTF-16, not by UTF-8", `{"\u20ac":"Euro","\r":"CR","\ufb33":"Dalet","1":"One","\ud83d\ude00":"Smile","\u0080":"Control","ö":"O","</script>":"Data"}`,
			"{\"\\r\":\"CR\",\"1\":\"One\",\"</script>\":\"Data\",\"\u0080\":\"Control\",\"ö\":\"O\",\"€\":\"Euro\",\"😀\":\"Smile\",\"\ufb33\":\"Dalet\"}"},
		{"names by UTF-16 behind a common start", `{"12345678\ue000":1,"12345678\ud83d\ude00":2,"1234567\uffff":3,"1234567\ud7ff":4,"1234567😀":5}`,
			"{\"12345678😀\":2,\"12345678\ue000\":1,\"1234567\ud7ff\":4,\"1234567😀\":5,\"1234567\uffff\":3}"},
		{"control characters", `"\u0000\u0001\b\t\n\u000b\f\r\u001f \u007f\u0080\u2028"`,
			"\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f \u007f\u0080\u2028\""},
		{"scalars", ` -0.0 `, `0`},
		{"small integers", `[0,-0,1,-1,999999999999999,-999999999999999,9007199254740993,1000000000000000000000,100000000000000000000]`,
			`[0,0,1,-1,999999999999999,-999999999999999,9007199254740992,1e+21,100000000000000000000]`},
		{"small fractions", `[0.0,-0.00,0.5,-0.5,1.0,-1.50,0.000001,0.0000010,0.0000001,123456789012345.0,0.12345678901234,99999999.9999999,1.000000000000001,1.0000000000000001,9821145704205.721]`,
			`[0,0,0.5,-0.5,1,-1.5,0.000001,0.000001,1e-7,123456789012345,0.12345678901234,99999999.9999999,1.000000000000001,1,9821145704205.72]`},
		{"too small for a double", `[1e-400,-1e-99999999999999999999]`, `[0,0]`},
		{"an integer as long as a double's largest", strings.Repeat("1", 309), `1.1111111111111112e+308`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := jcsText(t, c.in)
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if again := jcsText(t, got); again != got {
				t.Errorf("not a fixed point: %s", again)
			}
		})
	}
}

func TestJCSRefusesWhatIsNoDouble(t *testing.T) {
	for _, src := range []string{"1e400", "[-1e400]", `{"a":1.8e308}`, strings.Repeat("9", 310), "1e99999999999999999999", strings.Repeat("9", 310) + ".5"} {
		var d Doc
		if !d.Parse([]byte(src)) || d.Doubles() {
			t.Errorf("%.20s… is taken for a double", src)
		}
	}
}

// numbersOfReference yields the doubles of the reference implementation's number test in their
// published order: chosen values, the doubles around the smallest normal one, then what SHA-256
// yields, chained from 32 zero bytes.
func numbersOfReference(yield func(float64) bool) {
	bits := math.Float64frombits
	chosen := []float64{0, bits(1 << 63), bits(1), bits(1<<63 + 1)}
	// Thirds of powers of ten, from 1e22 down, some of them a few units in the last place off.
	thirds := make([]float64, 50)
	for i := range thirds {
		thirds[i] = parse(fmt.Sprintf("%se%d", "3."+strings.Repeat("3", 30), 21-i))
	}
	for i, off := range map[int]int{2: 1, 3: 1, 4: 1, 5: 2, 6: 1, 7: 1, 8: 3, 9: 1, 10: 2, 11: 2, 12: 1, 13: 1, 14: 1, 18: -1, 49: 1} {
		thirds[i] = bits(math.Float64bits(thirds[i]) + uint64(off))
	}
	for _, x := range thirds {
		chosen = append(chosen, -x)
	}
	chosen = append(append(chosen, thirds...), 10)
	for i := range 10 {
		chosen = append(chosen, parse(fmt.Sprintf("5e-%d", i)))
	}
	for i := 1; i <= 15; i++ {
		chosen = append(chosen, parse("5."+strings.Repeat("0", i)[:i]+"6e-6"))
	}
	for _, u := range []uint64{
		0x3ff0000000000000, 0xbff0000000000000, 0xbfeffffffffffffa, 0xbfeffffffffffffb, 0x3feffffffffffffa, 0x3feffffffffffffb, // around 1
		0x3feffffffffffffc, 0x3feffffffffffffe, 0xbfefffffffffffff, 0xbfefffffffffffff, 0x3fefffffffffffff, 0x3fefffffffffffff,
		0x3fd3333333333332, 0x3fd3333333333333, 0x3fd3333333333334, // around 0.3
		0x0010000000000000, 0x000ffffffffffffd, 0x000fffffffffffff, // around the smallest normal double
		0x7fefffffffffffff, 0xffefffffffffffff, 0x4340000000000000, 0xc340000000000000, 0x4430000000000000, // the largest, 2^53, 2^68
		0x44b52d02c7e14af5, 0x44b52d02c7e14af6, 0x44b52d02c7e14af7, 0x444b1ae4d6e2ef4e, 0x444b1ae4d6e2ef4f, 0x444b1ae4d6e2ef50, // 1e23, 1e21
		0x3eb0c6f7a0b5ed8c, 0x3eb0c6f7a0b5ed8d, // 1e-6
		0x41b3de4355555553, 0x41b3de4355555554, 0x41b3de4355555555, 0x41b3de4355555556, 0x41b3de4355555557, // 1e9/3
		0xbecbf647612f3696, 0x43143ff3c1cb0959,
	} {
		chosen = append(chosen, bits(u))
	}
	for i := range uint64(2000) {
		chosen = append(chosen, bits(1<<52+i))
	}
	for _, x := range chosen {
		if !yield(x) {
			return
		}
	}
	var block [sha256.Size]byte
	for {
		block = sha256.Sum256(block[:])
		for i := 0; i < len(block); i += 8 {
			x := bits(binary.LittleEndian.Uint64(block[i:]))
			if x != 0 && !math.IsInf(x, 0) && !math.IsNaN(x) && !yield(x) {
				return
			}
		}
	}
}

func parse(s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err)
	}
	return x
}

// FP-29: the SHA-256 of the first lines is published with the reference implementation
// (cyberphone/json-canonicalization).
func TestES6Numbers(t *testing.T) {
	want := map[int]string{
		1_000:  "be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687",
		10_000: "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892",
	}
	sum, n := sha256.New(), 0
	for x := range numbersOfReference {
		text := appendES6(nil, x)
		fmt.Fprintf(sum, "%x,%s\n", math.Float64bits(x), text)
		if again := jcsText(t, string(text)); again != string(text) {
			t.Fatalf("%s becomes %s", text, again)
		}
		n++
		if w, ok := want[n]; ok {
			if got := hex.EncodeToString(sum.Sum(nil)); got != w {
				t.Fatalf("SHA-256 of %d lines = %s", n, got)
			}
			delete(want, n)
		}
		if len(want) == 0 {
			return
		}
	}
}

func FuzzCanonJSON(f *testing.F) {
	for _, s := range []string{`{"b":[1.50,-0,"\u00e9\ud83d\ude00"],"a":{"c":null}}`, `[1e400,"\ud800"]`, `{"a":1,"a":2}`, "[[[[]]]]", `"\/"`, "0.1e-7", "\"\xff\"",
		`{"\ufb33":1,"😀":2,"12345678é":3,"12345678":4}`, " [ ] ", "9007199254740993"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var d Doc
		if !d.Parse(src) {
			return
		}
		if !json.Valid(src) {
			t.Fatalf("read what is not JSON: %q", src)
		}
		exact := written(d.WriteExact)
		var space bytes.Buffer
		if err := json.Indent(&space, src, " ", "\t"); err != nil {
			t.Fatal(err)
		}
		if again, ok := exactForm(space.String()); !ok || again != exact {
			t.Fatalf("white space matters in %q", src)
		}
		if !d.Doubles() {
			return
		}
		text := written(d.WriteJCS)
		if again := jcsText(t, text); again != text {
			t.Fatalf("not a fixed point: %q, then %q", text, again)
		}
		var v, w any
		if err := json.Unmarshal(src, &v); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(text), &w); err != nil {
			t.Fatalf("%q is not JSON: %v", text, err)
		}
		if !reflect.DeepEqual(v, w) {
			t.Fatalf("%q means something else than %q", text, src)
		}
	})
}
