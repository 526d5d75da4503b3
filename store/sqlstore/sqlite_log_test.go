package sqlstore

import (
	"os"
	"path/filepath"
	"testing"
)

// If a read uses the log for long, not every write tries to truncate it: each attempt keeps all
// writes waiting (B06).
func TestLogIsNotTriedByEveryWrite(t *testing.T) {
	l := &log{file: filepath.Join(t.TempDir(), "stet.db-wal"), max: 800}
	sized := func(size int, want bool) {
		t.Helper()
		if err := os.WriteFile(l.file, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := l.full(); got != want {
			t.Errorf("with %d bytes it is to be cut off: %v, want %v", size, got, want)
		}
	}
	if l.full() {
		t.Error("a log that is not there is full")
	}
	sized(800, false)
	sized(801, true)
	l.tried()
	sized(850, false)
	sized(901, false)
	sized(902, true)
	l.tried()
	sized(902, false)
	sized(100, false)
	l.tried() // it was cut off
	sized(801, true)
}
