package names_test

import (
	"testing"

	"github.com/stet-dev/stet/internal/names"
)

func TestOf(t *testing.T) {
	for v, want := range []string{"State(0)", "running", "State(2)"} {
		if got := names.Of("State", []string{1: "running"}, uint8(v)); got != want {
			t.Errorf("%d is %q, want %q", v, got, want)
		}
	}
}
