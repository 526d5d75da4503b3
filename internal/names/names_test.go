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

type colour uint8

// What has a name is read as it is written, and nothing else is.
func TestNames(t *testing.T) {
	words := []string{"red", "green"}
	for v, word := range words {
		text, err := names.Text("colour", words, colour(v))
		var got colour = 7
		if err == nil {
			err = names.Parse("colour", words, text, &got)
		}
		if err != nil || string(text) != word || got != colour(v) || names.Of("Colour", words, got) != word {
			t.Errorf("%d: %q, %d, %v", v, text, got, err)
		}
	}
	var kept colour = 1
	if err := names.Parse("colour", words, []byte("blue"), &kept); err == nil || kept != 1 ||
		err.Error() != `stet: unknown colour "blue": it is one of red, green` {
		t.Errorf("%d, %v", kept, err)
	}
	if text, err := names.Text("colour", words, colour(2)); err == nil || text != nil || err.Error() != "stet: value(2) is no colour" {
		t.Errorf("%q, %v", text, err)
	}
	gap := []string{"", "green"}
	if text, err := names.Text("colour", gap, colour(0)); err == nil {
		t.Errorf("what has no name is %q", text)
	}
	if err := names.Parse("colour", gap, nil, &kept); err == nil || kept != 1 {
		t.Errorf("no name is %d", kept)
	}
	if got := names.Of("Colour", words, colour(2)); got != "Colour(2)" {
		t.Error(got)
	}
}
