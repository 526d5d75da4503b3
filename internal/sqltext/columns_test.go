package sqltext

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decisions/0013: what operators search, or the stores' own statements compare, has a column;
// everything else shares three, and the body has its own. The view for people shows none of those.
func TestColumns(t *testing.T) {
	want := []string{"attempt", "cause", "completed_at", "created_at", "downstream_id", "downstream_key", "due_at", "escalated", "head_sum",
		"holder", "id", "keep_expired_ns", "key", "method", "path", "point", "route", "schema", "scope", "size", "state", "status", "tag",
		"trace_id", "updated_at", "version", // plain
		"fingerprint", "attributes", "exchange", "body"}
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
		if view, _, _ = strings.Cut(view, ";"); !found || regexp.MustCompile(`\b(attributes|exchange|body)\b`).MatchString(view) {
			t.Errorf("%s shows people %s", dialect, view)
		}
	}
}
