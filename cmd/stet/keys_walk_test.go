package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
)

// Tail prints what is new or changed, and not what only moves into its window; it says where it may
// have missed some.
func TestTailComparesWindows(t *testing.T) { // Y8
	// ages are records that were created so many seconds ago, the newest first.
	ages := func(newest, oldest int) (all []operate.Record) {
		for age := newest; age <= oldest; age++ {
			all = append(all, operate.Record{ID: fmt.Sprintf("k_%d", age), Version: 1,
				CreatedAt: fullTime.Add(-time.Duration(age) * time.Second)})
		}
		return all
	}
	changed := ages(999, 2100)
	changed[1].Version, changed[1050].Version = 2, 2
	for name, tt := range map[string]struct {
		first, second []operate.Record
		printed       string // the first and the last id
		lines         int
		misses        bool
	}{
		"nothing":                 {},
		"the first of all":        {second: ages(1, 1), printed: "k_1 k_1", lines: 1},
		"one new and one changed": {first: ages(1000, 2100), second: changed, printed: "k_1000 k_999", lines: 2},
		"older ones move in":      {first: ages(1000, 2100), second: ages(1010, 2100)},
		"all are older ones":      {first: ages(1000, 2100), second: ages(2000, 3100)},
		"an older one matches":    {first: ages(5, 6), second: append(ages(5, 6), ages(9, 9)...), printed: "k_9 k_9", lines: 1},
		"all are new":             {first: ages(2000, 3100), second: ages(500, 3100), printed: "k_1499 k_500", lines: 1000, misses: true},
		"all but one are new":     {first: ages(2000, 3100), second: ages(1001, 3100), printed: "k_1999 k_1001", lines: 999},
		"all are new, and few":    {first: ages(9, 9), second: ages(2, 3), printed: "k_3 k_2", lines: 2},
	} {
		t.Run(name, func(t *testing.T) {
			stored := tt.first
			at := plain(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(admin.Marker, "1")
				doc := map[string]any{"keys": append([]operate.Record{}, stored[:min(len(stored), stet.MaxLimit)]...), "next_cursor": ""}
				if len(stored) > stet.MaxLimit {
					doc["next_cursor"] = "further"
				}
				_ = json.NewEncoder(w).Encode(doc) // the client is gone
			}))
			var out, errs bytes.Buffer
			w := &world{ctx: t.Context(), stdout: &out, stderr: &errs}
			c := &keysTailCmd{source: source{place: place{Admin: at}}}
			a, err := c.open(w)
			if err != nil {
				t.Fatal(err)
			}
			defer a.close()
			seen, err := c.look(w, a, nil)
			if err != nil || out.Len() > 0 {
				t.Fatalf("%v, and the first look prints %s", err, &out)
			}
			stored = tt.second
			if _, err := c.look(w, a, seen); err != nil {
				t.Fatal(err)
			}
			lines := slices.Collect(strings.Lines(out.String()))
			printed := ""
			if len(lines) > 0 {
				printed = strings.Fields(lines[0])[1] + " " + strings.Fields(lines[len(lines)-1])[1]
			}
			if printed != tt.printed || len(lines) != tt.lines {
				t.Errorf("it prints %d lines, %q; want %d, %q", len(lines), printed, tt.lines, tt.printed)
			}
			says := strings.HasPrefix(errs.String(), "stet: all of the newest 1000 records came since the last look")
			if says != tt.misses || !says && errs.Len() > 0 {
				t.Errorf("it says %q", errs.String())
			}
		})
	}
}
