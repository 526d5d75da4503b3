package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/operate"
)

// A record of a flow says where its runs came to, and when.
func TestShowOfAFlow(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	r := record(operate.Record{ID: "k_1", State: "running", Point: "charge\x1b",
		Points: []flow.Point{{Name: "reserve", At: at}, {Name: "charge\x1b", At: at.Add(2 * time.Second)}}})
	var out bytes.Buffer
	if err := r.show(&world{stdout: &out}); err != nil {
		t.Fatal(err)
	}
	want := "came to reserve   2026-03-01T10:00:00Z\n" + `came to charge\x1b  2026-03-01T10:00:02Z`
	if strings.Join(strings.Fields(want), " ") != strings.Join(strings.Fields(out.String()[strings.Index(out.String(), "came"):]), " ") {
		t.Errorf("%s", &out)
	}
}
