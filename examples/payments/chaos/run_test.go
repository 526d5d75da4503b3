package main

import (
	"slices"
	"testing"
)

// A window is before each thing that is done; the last is after all of them.
func TestWindows(t *testing.T) {
	got := windows([]string{"BEGIN, before, 1", "BEGIN, after, 1", "SELECT, before, 1", "SELECT, rows to come, 1", "SELECT, after, 1"})
	if want := []string{"BEGIN, before, 1", "SELECT, before, 1", "SELECT, after, 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Each effect is to be there once, and each request to have its answer.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		o    outcome
		want result
	}{
		{outcome{effects: 1}, result{Effects: 1}},
		{outcome{effects: 1, killed: true}, result{Windows: 1, Effects: 1}},
		{outcome{effects: 3, killed: true}, result{Windows: 1, Effects: 3, Duplicates: 2}},
		{outcome{killed: true}, result{Windows: 1, Lost: 1}},
		{outcome{effects: 1, wrong: errNoAnswer}, result{Effects: 1, Lost: 1}},
	} {
		if got := c.o.count(); got != c.want {
			t.Errorf("%+v counts as %+v, want %+v", c.o, got, c.want)
		}
	}
}
