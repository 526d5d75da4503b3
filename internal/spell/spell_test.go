package spell

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"fail_mode", "on_5xx", "wait_policy", "dsn", "replay", "release"}
	for word, want := range map[string]string{
		"fail_mod":    "fail_mode",
		"Fail_Mode":   "fail_mode",
		"fial_mode":   "fail_mode",
		"on_5x":       "on_5xx",
		"dns":         "dsn",
		"wait-policy": "wait_policy",
		"relaese":     "release",
		"colour":      "",
		"x":           "",
		"":            "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"abcd", "acbd", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := distance(c.b, c.a); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
