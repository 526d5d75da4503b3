package outcome_test

import (
	"maps"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/outcome"
)

// Each word stands for its state, and the state for the word.
func TestWords(t *testing.T) { // Y21
	got := outcome.Words(map[int]stet.State{502: stet.Unknown, 503: stet.Retryable, 504: stet.Completed, 505: stet.Running})
	if want := map[int]string{502: "unknown", 503: "not-executed", 504: "completed", 505: ""}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if want := map[string]stet.State{"unknown": stet.Unknown, "not-executed": stet.Retryable, "completed": stet.Completed}; !maps.Equal(outcome.States, want) {
		t.Errorf("%v, want %v", outcome.States, want)
	}
	if got := outcome.Words(nil); got == nil || len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
}
