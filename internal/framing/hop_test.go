package framing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestListed(t *testing.T) {
	few := Listed([]string{"close, x-hop", " X-Other ,"})
	for name, want := range map[string]bool{"X-Hop": true, "X-Other": true, "Close": true, "Hop": false, "x-hop": false} {
		if few.Has(name) != want {
			t.Errorf("%s is listed: %v", name, !want)
		}
	}
	if got := few.List("Close"); !slices.Equal(got, []string{"X-Hop", "X-Other", ""}) {
		t.Errorf("%q", got)
	}
	if none := Listed(nil); none.Has("") {
		t.Error("no lines list a field")
	}
}

// However many names are listed, each field is looked for once.
func TestManyNamesAreListed(t *testing.T) { // H08
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "X-%06d,", i)
		}
		return b.String()
	}
	looking := func(n int) time.Duration {
		listed, best := Listed([]string{names(n)}), time.Hour
		for range 5 {
			began := time.Now()
			for i := range 4000 {
				if listed.Has(fmt.Sprintf("Y-%06d", i)) {
					t.Fatal("what is not listed is found")
				}
			}
			best = min(best, time.Since(began))
		}
		if !listed.Has("X-000000") || !listed.Has(fmt.Sprintf("X-%06d", n-1)) {
			t.Fatalf("of %d names, some are not found", n)
		}
		return best
	}
	if few, many := looking(16), looking(16<<10); many > 20*few { // one by one it would be some hundred times
		t.Errorf("4,000 fields take %s among 16 names, and %s among 16,384", few, many)
	}
}
