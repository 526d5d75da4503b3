package operate_test

import (
	"testing"

	"github.com/stet-dev/stet/operate"
)

// Requests and duplicates are counted in one place for pages, reports and the API's clients: those
// who ask again and again about one request are no duplicates.
func TestResults(t *testing.T) {
	r := operate.Results{"new": 46, "replay": 15, "conflict": 3, "in_progress": 6, "unknown": 3}
	if r.Requests() != 73 || r.Duplicates() != 15 {
		t.Errorf("%d requests, %d duplicates", r.Requests(), r.Duplicates())
	}
}
