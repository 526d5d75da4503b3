package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/operate"
)

// A record is shown with the API's sentences below each other, and may steer no terminal by them.
func TestShowSaysWhatTheAPISays(t *testing.T) {
	r := record(operate.Record{ID: "k_1", State: "unknown", Mismatch: &operate.Mismatch{Parts: []string{"body", "path"}},
		Explanation: &operate.Explanation{Known: []string{"It is so.", "By \x1b[31m."}, Open: []string{"It is open."}, Client: []string{"It hears."}, Next: []string{"First.", "Then."}},
		Outlook:     &operate.Outlook{Release: &operate.Release{Why: "It has not settled.", Role: "admin", With: "voided"}}})
	var out bytes.Buffer
	if err := r.show(&world{stdout: &out}); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(out.String(), "mismatch")
	const want = `mismatch in         body, path
known               It is so.
                    By \x1b[31m.
not known           It is open.
a client            It hears.
if nothing is done  First.
                    Then.
may be released     no: It has not settled. The role admin may now, with --voided.
`
	if "mismatch"+got != want {
		t.Errorf("%s", got)
	}
}

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
