package canon

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/tier"
)

// decimalOf is what a literal is worth by another road: an integer without zeros at its end, and
// the power of ten it is multiplied with.
func decimalOf(t testing.TB, lit string) (m, e *big.Int) {
	t.Helper()
	mantissa, power, _ := strings.Cut(strings.ToLower(lit), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	m, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		t.Fatalf("bad literal %q", lit)
	}
	e = new(big.Int)
	if power != "" {
		if _, ok := e.SetString(power, 10); !ok {
			t.Fatalf("bad exponent in %q", lit)
		}
	}
	e.Sub(e, big.NewInt(int64(len(fraction))))
	if m.Sign() == 0 {
		return m, new(big.Int)
	}
	ten, one := big.NewInt(10), big.NewInt(1)
	for {
		q, r := new(big.Int).QuoRem(m, ten, new(big.Int))
		if r.Sign() != 0 {
			return m, e
		}
		m = q
		e.Add(e, one)
	}
}

func checkNumbers(t testing.TB, a, b string) {
	t.Helper()
	fa, ok := exactForm(a)
	fb, ok2 := exactForm(b)
	if !ok || !ok2 {
		return
	}
	ma, ea := decimalOf(t, a)
	mb, eb := decimalOf(t, b)
	if want := ma.Cmp(mb) == 0 && ea.Cmp(eb) == 0; (fa == fb) != want {
		t.Errorf("%s and %s: same = %v, want %v (%q, %q)", a, b, fa == fb, want, fa, fb)
	}
}

// respell writes a literal of the same value in another way: zeros around the digits, the point
// moved, the exponent made up for it.
func respell(r *rand.Rand, lit string) string {
	sign := ""
	if lit[0] == '-' {
		sign, lit = "-", lit[1:]
	}
	mantissa, power, _ := strings.Cut(strings.ToLower(lit), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	e := new(big.Int)
	if power != "" {
		e.SetString(power, 10)
	}
	digits := whole + fraction + strings.Repeat("0", r.IntN(4))
	e.Sub(e, big.NewInt(int64(len(digits)-len(whole)))) // digits × 10^e
	point := r.IntN(len(digits) + 1)
	e.Add(e, big.NewInt(int64(len(digits)-point)))
	whole, fraction = strings.TrimLeft(digits[:point], "0"), digits[point:]
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	if e.Sign() == 0 && r.IntN(2) == 0 {
		return sign + whole + fraction
	}
	plus := ""
	if e.Sign() >= 0 && r.IntN(2) == 0 {
		plus = "+"
	}
	text := e.String()
	if r.IntN(4) == 0 && e.Sign() >= 0 {
		text = "00" + text
	}
	return sign + whole + fraction + string("eE"[r.IntN(2)]) + plus + text
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-0.0", "1", "10", "12.50", "1e21", "0.1e-5", "9007199254740993", "1e999999999999999999", "1e1000000000000000000",
		"10e-1000000000000000000", "0.00001e999999999999999999999", "1e-0", "123456789012345678901234567890.5", "1e99999999999999999999999999999999"} {
		f.Add(s, "1", uint64(1))
	}
	f.Fuzz(func(t *testing.T, a, b string, seed uint64) {
		if len(a) > 200 || len(b) > 200 || !isNumber(a) {
			return
		}
		r := rand.New(rand.NewPCG(seed, 1))
		checkNumbers(t, a, a)
		checkNumbers(t, a, respell(r, a))
		if isNumber(b) {
			checkNumbers(t, a, b)
			checkNumbers(t, respell(r, a), respell(r, b))
		}
	})
}

func isNumber(s string) bool {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || strings.TrimRight(s, "+-.eE0123456789") != "" {
		return false
	}
	_, ok := exactForm(s)
	return ok
}

func TestRespelledNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		lit := fmt.Sprintf("%d.%de%d", r.IntN(2000)-1000, r.IntN(1000), r.IntN(60)-30)
		again := respell(r, lit)
		if a, ok := exactForm(lit); !ok {
			t.Fatalf("%s is refused", lit)
		} else if b, ok := exactForm(again); !ok || a != b {
			t.Fatalf("%s is not %s", again, lit)
		}
		checkNumbers(t, lit, fmt.Sprintf("%de%d", r.IntN(100), r.IntN(4)))
	}
}

// FP-12: neither exponents nor digits are expanded. Far below a second is a bound with room;
// expanding would take years.
func TestNumbersAreNotExpanded(t *testing.T) {
	nines, zeros := strings.Repeat("9", 1<<20), strings.Repeat("0", 1<<20)
	start := time.Now()
	for _, pair := range [][2]string{
		{"1e" + nines, "0.1e1" + zeros},
		{"1e-" + nines, "10e-1" + zeros},
		{"1e1" + zeros, "10e" + nines},
		{"1" + zeros + "e" + nines, "10" + zeros + "e" + nines[1:] + "8"},
		{"0." + zeros + "1", "1e-1048577"},
		{"1" + zeros, "1e1048576"},
	} {
		a, ok := exactForm(pair[0])
		b, ok2 := exactForm(pair[1])
		if !ok || !ok2 || a != b {
			t.Errorf("%.20s… and %.20s… differ", pair[0], pair[1])
		}
	}
	tier.Took(t, "the comparison of numbers of a million digits", time.Since(start), 5*time.Second)
}
