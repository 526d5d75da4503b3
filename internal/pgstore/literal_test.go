package pgstore

import (
	"testing"
)

func TestLiteralArrays(t *testing.T) {
	s, n := `a"b\c,{}`, int64(-7)
	for name, c := range map[string]struct{ v, want any }{
		"texts":     {[]string{"", "a", s, "NULL", "é\n"}, "{\"\",\"a\",\"a\\\"b\\\\c,{}\",\"NULL\",\"é\n\"}"},
		"numbers":   {[]int64{1, -2}, "{1,-2}"},
		"or no one": {[]*int64{nil, &n}, "{NULL,-7}"},
		"bytes":     {[][]byte{nil, {}, {0, 0xff}}, `{NULL,"\\x","\\x00ff"}`},
		"nothing":   {[]string{}, "{}"},
		"no array":  {int64(3), int64(3)},
	} {
		if got := literal(c.v); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
