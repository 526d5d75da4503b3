package hexdigit

import (
	"strconv"
	"testing"
)

func TestValue(t *testing.T) {
	for c := range 256 {
		want, err := strconv.ParseUint(string([]byte{byte(c)}), 16, 8)
		if err != nil {
			if got := Value(byte(c)); got != -1 {
				t.Errorf("%d is no digit, and is worth %d", c, got)
			}
		} else if got := Value(byte(c)); got != int(want) {
			t.Errorf("%d is worth %d, want %d", c, got, want)
		}
	}
}
