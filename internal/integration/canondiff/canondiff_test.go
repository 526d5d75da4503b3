// Package canondiff holds the canonical JSON forms of the core against another reader of JSON,
// jsontext, which the core itself must not depend on.
package canondiff

import (
	"bytes"
	"errors"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stet-dev/stet/internal/canon"
)

var errDepth = errors.New("deeper than canon reads")

// oracle returns what a text says, from jsontext's tokens and exact decimals of math/big.
func oracle(src []byte) (string, error) {
	d := jsontext.NewDecoder(bytes.NewReader(src)) // refuses repeated names and invalid Unicode
	var b strings.Builder
	if err := value(d, &b); err != nil {
		return "", err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return "", errors.New("trailing data")
	}
	return b.String(), nil
}

func value(d *jsontext.Decoder, b *strings.Builder) error {
	if d.PeekKind() == '{' || d.PeekKind() == '[' {
		if d.StackDepth() >= canon.MaxDepth {
			return errDepth
		}
	}
	t, err := d.ReadToken()
	if err != nil {
		return err
	}
	switch t.Kind() {
	case '"':
		b.WriteString(strconv.Quote(t.String()))
	case '0':
		b.WriteString(decimal(t.String()))
	case '[':
		b.WriteByte('[')
		for d.PeekKind() != ']' {
			if err := value(d, b); err != nil {
				return err
			}
			b.WriteByte(',')
		}
		b.WriteByte(']')
		_, err = d.ReadToken()
	case '{':
		var members []string
		for d.PeekKind() != '}' {
			var m strings.Builder
			if err := value(d, &m); err != nil {
				return err
			}
			m.WriteByte(':')
			if err := value(d, &m); err != nil {
				return err
			}
			members = append(members, m.String())
		}
		slices.Sort(members)
		b.WriteString("{" + strings.Join(members, ",") + "}")
		_, err = d.ReadToken()
	default:
		b.WriteString(t.String())
	}
	return err
}

func decimal(lit string) string {
	mantissa, power, _ := strings.Cut(strings.ToLower(lit), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	m, ok := new(big.Int).SetString(digits+"0", 10) // "0" for what was only zeros, or only their sign
	if !ok || m.Sign() == 0 {
		return "0"
	}
	e := new(big.Int)
	if power != "" {
		e.SetString(power, 10)
	}
	e.Add(e, big.NewInt(int64(len(whole)-len(digits)-1)))
	return m.String() + "e" + e.String()
}

func exact(src []byte) (string, bool) {
	var d canon.Doc
	if !d.Parse(src) {
		return "", false
	}
	return written(d.WriteExact), true
}

func written(write func(*canon.Writer)) string {
	var b bytes.Buffer
	w := canon.NewWriter(&b)
	write(w)
	w.Flush()
	return b.String()
}

func seeds(f *testing.F) {
	for _, s := range []string{
		`{"amount":1000,"currency":"EUR","items":[{"sku":"a","n":1.50},{"n":1.5e0,"sku":"\u0061"}]}`, `[1,1.0,1e0,10e-1,-0,0.0]`,
		`{"\ufb33":1,"\ud83d\ude00":2,"12345678é":3,"12345678":4,"":5}`, `["\u00e9\/\b\"","\ud800"]`, "\"\xff\"", `{"a":1,"\u0061":1}`, `[1e400,1e-400,9007199254740993]`,
		"[[[[{}]]]] ", "[1,]", "01", "-", "1e999999999999999999999", "nul", " true", "0.000001", "1e21", strings.Repeat("[", 600) + strings.Repeat("]", 600),
	} {
		f.Add([]byte(s), []byte(`[1.0, {"a":"b"}]`))
	}
}

// Both read the same texts, but for the depth; and two texts have the same exact form if and only
// if they say the same.
func FuzzExact(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		formA, okA := exact(a)
		saysA, err := oracle(a)
		if okA != (err == nil) {
			t.Fatalf("%q: read = %v, jsontext says %v", a, okA, err)
		}
		formB, okB := exact(b)
		saysB, err := oracle(b)
		if okB != (err == nil) {
			t.Fatalf("%q: read = %v, jsontext says %v", b, okB, err)
		}
		if okA && okB && (formA == formB) != (saysA == saysB) {
			t.Fatalf("%q and %q: same = %v, want %v", a, b, formA == formB, saysA == saysB)
		}
	})
}

// The RFC 8785 text is jsontext's, where all numbers are doubles.
func FuzzJCS(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src, _ []byte) {
		var d canon.Doc
		if !d.Parse(src) || !d.Doubles() {
			return
		}
		want := jsontext.Value(bytes.Clone(src))
		if err := want.Canonicalize(); err != nil {
			t.Fatalf("%q: jsontext says %v", src, err)
		}
		got := written(d.WriteJCS)
		if got != string(want) {
			t.Fatalf("%q: got %q, want %q", src, got, want)
		}
		if a, ok := exact([]byte(got)); !ok || a == "" {
			t.Fatalf("%q cannot be read again", got)
		}
	})
}
