package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
)

// What is known of a record can be said of it without typing it again: the API takes its answer
// whole. What neither says is refused with what to do: no trace is a matter of a release, with its
// warning.
func TestResolveAs(t *testing.T) {
	probe := func(found string, status int) *operate.ProbeAnswer {
		return &operate.ProbeAnswer{Found: found, Status: status, Evidence: "the probe was answered"}
	}
	for _, tt := range []struct {
		as     string
		probe  *operate.ProbeAnswer
		there  bool // what the API takes the record as
		status exit
		says   string // what is sent, or what is told
	}{
		{"late-answer", nil, true, exitFine, `late-answer  "" `},
		{"late-answer", nil, false, exitError, "it has no late answer; stet keys resolve --completed"},
		{"last-probe", probe("happened", 200), true, exitFine, `last-probe  "" `},
		{"last-probe", probe("missing", 404), false, exitError, "and stet keys release that it did not happen"},
		{"last-probe", nil, false, exitError, "its last probe found no answer for retries; stet keys show says"},
	} {
		record := operate.Record{ID: "k_0123456789abcdef", State: "unknown", Basis: "fedcba9876543210", Probe: tt.probe}
		var sent string
		at := plain(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(admin.Marker, "1")
			if strings.HasSuffix(r.URL.Path, "/resolve") {
				var c operate.Resolution
				if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
					t.Error(err)
				}
				sent = fmt.Sprintf("%s %s %q %s", c.As, c.Outcome, c.Evidence, c.Basis)
				if !tt.there {
					w.WriteHeader(http.StatusConflict)
					_, _ = w.Write([]byte(`{"code":"no-answer"}`))
					return
				}
			}
			_ = json.NewEncoder(w).Encode(record) // the client is gone
		}))
		status, _, errs := ran(t, "keys", "resolve", record.ID, "--as", tt.as, "--reason", "seen", "--yes", "--admin", at)
		if says := sent + errs; status != tt.status || !strings.Contains(says, tt.says) {
			t.Errorf("--as %s of %+v: %d, sent %s, told %s", tt.as, tt.probe, status, sent, errs)
		}
	}
	for _, args := range [][]string{{"--as", "late-answer", "--status", "200"}, {"--as", "last-probe", "--not-executed"},
		{"--as", "rumours"}, {"--as", "late-answer", "--if-basis", "7"}} {
		if status, _, errs := ran(t, append([]string{"keys", "resolve", "k", "--reason", "r", "--yes", "--admin",
			"http://127.0.0.1:1"}, args...)...); status != exitUsage {
			t.Errorf("%q: %d %s", args, status, errs)
		}
	}
}

// A yes is about what was shown: the change goes with the basis of that record.
func TestTheQuestionPinsWhatItShowed(t *testing.T) {
	at := plain(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(admin.Marker, "1")
		_ = json.NewEncoder(w).Encode(operate.Record{State: "unknown", Basis: "fedcba9876543210"}) // the client is gone
	}))
	w := &world{ctx: t.Context(), stdin: strings.NewReader("y\n"), stdout: io.Discard, stderr: io.Discard, given: map[string]bool{}}
	a, err := (&source{place: place{Admin: at}}).open(w)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	var pin string
	o := recordChange{&change{}, &named{Key: "k"}, pinned{}, "do it", ""}
	if err := o.do(w, a, func(_ operate.Name, c operate.Change) error { pin = string(c.Basis); return nil }); err != nil ||
		pin != "fedcba9876543210" {
		t.Errorf("%s, %v", pin, err)
	}
}
