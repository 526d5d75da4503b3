package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stet-dev/stet/operate"
)

// A long text makes no line that a terminal breaks, and a program gets it whole.
func TestTablesFitTheTerminal(t *testing.T) { // O22
	scope := "acme-" + strings.Repeat("ü", 990) + "-eu"
	rows := []operate.Record{{ID: "k_7bea1ec367f33e32", State: "unknown", Scope: scope, Route: "POST /v1/charges"},
		{ID: "k_9b730ee3260f42cc", State: "completed", Scope: "acme", Route: "POST /v1/" + strings.Repeat("x", 100)}}
	printed := func(w *world, columns ...string) string {
		var out bytes.Buffer
		w.stdout = &out
		if err := keysList.rows(w, rows, &printed{Columns: columns}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for _, width := range []int{70, 100, 200} {
		out := printed(&world{terminal: true, width: width}, "state", "id", "scope", "route")
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d: %d characters: %s", width, n, line)
			}
		}
		for _, want := range []string{"  k_7bea1ec367f33e32  acme-ü", "…", "ü-eu  ", "completed  k_9b730ee3260f42cc  acme  ", "xxx"} {
			if !strings.Contains(out, want) {
				t.Errorf("%d: it lacks %q\n%s", width, want, out)
			}
		}
	}
	if out := printed(&world{terminal: true, width: 20}, "scope", "id"); !strings.Contains(out, scope) || !strings.Contains(out, rows[0].ID) {
		t.Errorf("the first column or the id is cut\n%s", out)
	}
	if out := printed(&world{}); !strings.Contains(out, scope) || !strings.Contains(out, rows[1].Route) || strings.Contains(out, "…") {
		t.Errorf("a program reads\n%s", out)
	}
	if out := printed(&world{width: 250}, "id", "scope"); !strings.Contains(out, strings.Repeat("ü", 100)) {
		t.Errorf("there was room for more\n%s", out)
	}
}
