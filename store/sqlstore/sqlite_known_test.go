package sqlstore

import (
	"fmt"
	"testing"

	"github.com/stet-dev/stet"
)

// No name of the last generation is forgotten, and few names are taken for others.
func TestKnown(t *testing.T) {
	var k known
	id := func(kind string, n int) stet.ID { return stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint(kind, n))} }
	if k.has(id("new", 1)) {
		t.Error("a name is known before any was added")
	}
	const names = knownGeneration + knownGeneration/2
	for n := range names {
		k.add(id("made", n))
	}
	for n := names - knownGeneration; n < names; n++ {
		if !k.has(id("made", n)) {
			t.Fatalf("name %d of %d is forgotten", n, names)
		}
	}
	taken := 0
	for n := range 10_000 {
		if k.has(id("new", n)) {
			taken++
		}
	}
	if taken > 300 {
		t.Errorf("%d of 10000 new names are taken for known ones", taken)
	}
	for n := range 3 * knownGeneration {
		k.add(id("later", n))
	}
	forgotten := 0
	for n := range 1000 {
		if !k.has(id("made", n)) {
			forgotten++
		}
	}
	if forgotten < 900 {
		t.Errorf("only %d of 1000 old names are forgotten", forgotten)
	}
}
