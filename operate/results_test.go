package operate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stet-dev/stet/operate"
)

// Requests and duplicates are counted in one place for pages, reports and the API's clients.
func TestSum(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	all := []operate.Series{
		{Result: "new", Until: at, Step: 15, PerSecond: []float64{2, 1, 1.0 / 15}},
		{Result: "replay", Until: at, Step: 15, PerSecond: []float64{1, 0, 0}},
		{Result: "conflict", Until: at, Step: 15, PerSecond: []float64{0, 0, .2}},
		{Result: "in_progress", Until: at, Step: 15, PerSecond: []float64{0, 0, .4}},
		{Result: "unknown", Until: at, Step: 15, PerSecond: []float64{0, .2, 0}},
	}
	for _, c := range []struct {
		since                time.Time
		want                 string
		requests, duplicates int
	}{
		{time.Time{}, "map[conflict:3 in_progress:6 new:46 replay:15 unknown:3]", 73, 15},
		{at.Add(-30 * time.Second), "map[conflict:3 in_progress:6 new:16 unknown:3]", 28, 0},
		{at.Add(-15 * time.Second), "map[conflict:3 in_progress:6 new:1]", 10, 0},
		{at, "map[]", 0, 0},
	} {
		if r := operate.Sum(all, c.since); fmt.Sprint(r) != c.want || r.Requests() != c.requests || r.Duplicates() != c.duplicates {
			t.Errorf("since %s: %v, %d requests, %d duplicates", c.since, r, r.Requests(), r.Duplicates())
		}
	}
}
