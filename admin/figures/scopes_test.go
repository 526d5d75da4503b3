package figures

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
)

// What clients name a scope is cut off before it is kept, not when it is shown.
func TestScopesAreKeptShort(t *testing.T) {
	s := newScopes()
	for i := range 10 {
		s.count(stet.Scope(fmt.Sprint(i, strings.Repeat("x", 64<<10))), 0, 0)
	}
	rows := *s.rows.Load()
	for name := range rows {
		if len(name) > maxName {
			t.Fatalf("a name of %d bytes is kept", len(name))
		}
	}
	if len(rows) != 10 {
		t.Errorf("%d scopes", len(rows))
	}
}
