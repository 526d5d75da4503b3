package sqlstore

import (
	"fmt"
	"testing"

	"github.com/stet-dev/stet"
)

// No name of the last ones is forgotten, and the others are.
func TestKnown(t *testing.T) {
	var k known
	id := func(n int) stet.ID { return stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint(n))} }
	const names = 3*knownNames + knownNames/2
	for n := range names {
		k.add(id(n))
	}
	for n := names - knownNames; n < names; n++ {
		if !k.has(id(n)) {
			t.Fatalf("name %d of %d is forgotten", n, names)
		}
	}
	if k.has(id(0)) || k.has(id(names)) {
		t.Error("an old name, or a new one, is known")
	}
	if n := len(k.now) + len(k.before); n > 2*knownNames {
		t.Errorf("%d names are remembered", n)
	}
}
