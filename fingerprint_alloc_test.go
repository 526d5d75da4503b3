//go:build !race

package stet

import "testing"

// Scratch space is pooled; the race detector makes pools forget at random.
func TestFingerprintDoesNotAllocate(t *testing.T) {
	for _, c := range []struct {
		recipe Recipe
		s      *Subject
	}{
		{Recipe{Body: BodyRaw}, with(query(""))},
		{Recipe{}, with(body(string(paymentJSON(1 << 10))))},
		{Recipe{Body: BodyJCS}, with(body(string(paymentJSON(1 << 10))))},
		{Recipe{}, with(form("a=1&b=%20"))},
	} {
		f, _ := c.recipe.Compile()
		f.Fingerprint(c.s)
		if n := testing.AllocsPerRun(100, func() { f.Fingerprint(c.s) }); n >= 1 {
			t.Errorf("%s: %v allocations", f.recipe, n)
		}
	}
}
