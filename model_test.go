package stet

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"
)

// TestModelMovesAsJudgeRules compares the transitions that requests make in the model with those
// the rulebook allows: a model of something else proves nothing.
func TestModelMovesAsJudgeRules(t *testing.T) {
	text, err := os.ReadFile("internal/model/life.pml")
	if err != nil {
		t.Fatal(err)
	}
	modelled := map[string]bool{}
	for _, m := range regexp.MustCompile(`move\(request, (\w+), (\w+)\)`).FindAllStringSubmatch(string(text), -1) {
		modelled[m[1]+" to "+m[2]] = true
	}
	ruled := map[string]bool{"none to running": true} // Create
	now := time.Now()
	for _, s := range []State{Running, Completed, Retryable, Unknown, Expired} {
		for _, due := range []time.Time{now.Add(-1), now.Add(1), {}} {
			for rule := LapseUnknown; rule.Valid(); rule++ {
				for _, point := range []string{"", "charged"} {
					for _, keep := range []time.Duration{0, time.Hour} {
						h := &Head{State: s, DueAt: due, AsOf: now, Point: point, Rules: Rules{OnLapse: rule, KeepExpired: keep}}
						switch judge(h, true).move {
						case take, restart:
							ruled[s.String()+" to running"] = true
						case lapse:
							ruled[s.String()+" to unknown"] = true
						case stay:
						}
					}
				}
			}
		}
	}
	if !maps.Equal(modelled, ruled) {
		t.Errorf("requests move a record\nin the model %v\nby judge     %v", slices.Sorted(maps.Keys(modelled)), slices.Sorted(maps.Keys(ruled)))
	}
}
