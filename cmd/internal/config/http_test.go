package config

import (
	"testing"

	"github.com/stet-dev/stet"
)

func TestKeyPatternMatchesTheWholeKey(t *testing.T) {
	re, err := (&key{Pattern: "[0-9]{3}|[a-z]+"}).pattern()
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"123": true, "abc": true, "1234": false, "abc1": false, "xx123": false} {
		_, err := stet.KeyRule{Pattern: re}.Parse([]string{key})
		if (err == nil) != want {
			t.Errorf("%s: %v", key, err)
		}
	}
	if _, err := (&key{Pattern: "("}).pattern(); err == nil {
		t.Error("a broken pattern was taken")
	}
}
