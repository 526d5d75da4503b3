package digest_test

import (
	"encoding/hex"
	"testing"

	"github.com/stet-dev/stet/internal/digest"
)

// Files and keys downstream are named by these bytes: they stay as they are.
func TestOf(t *testing.T) {
	for want, got := range map[string][]byte{
		"90aa7bcbe2622e27348fb4b32a997a77de9a1e62fe883c42b6ae54b327f7c76b": digest.Of([]string{"s", "k"}),
		"7fbb65d0815bbf56440a5a04ecca1375541b6e20b92954f047e191cb1c8b9581": digest.Of([]string{"s", "k"}, 1),
	} {
		if hex.EncodeToString(got) != want {
			t.Errorf("%x, want %s", got, want)
		}
	}
	if string(digest.Of([]string{"a", "bc"})) == string(digest.Of([]string{"ab", "c"})) {
		t.Error("two lists of parts are the same bytes")
	}
}
