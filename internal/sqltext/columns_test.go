package sqltext

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decisions/0025: what operators search by, or the stores' own statements compare, has a column;
// the rest of a head shares one, and the body has one. The view for people shows neither.
func TestColumns(t *testing.T) {
	want := slices.Concat(recordColumns, []string{"id"})
	slices.Sort(want)
	for _, dialect := range []string{"sqlite", "postgres", "mysql"} {
		text, err := os.ReadFile(dialect + "/0001_records.sql")
		if err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(string(text), "stet_records (")
		table, _, _ = strings.Cut(table, "\n)")
		var columns []string
		for _, m := range regexp.MustCompile("(?m)^    `?([a-z_]+)`? +[A-Za-z]").FindAllStringSubmatch(table, -1) {
			columns = append(columns, m[1])
		}
		slices.Sort(columns)
		if !slices.Equal(columns, want) {
			t.Errorf("%s has %q, want %q", dialect, columns, want)
		}
		_, view, found := strings.Cut(string(text), "VIEW stet_keys AS")
		if view, _, _ = strings.Cut(view, ";"); !found || regexp.MustCompile(`\b(head|body)\b`).MatchString(view) {
			t.Errorf("%s shows people %s", dialect, view)
		}
	}
}
