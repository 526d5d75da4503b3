package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
)

// ReadToken is [ReadSecret] for what lets its bearer in: a file that everybody on the machine may
// read is refused.
func ReadToken(name string) ([]byte, error) { return oneLine(name, othersRead) }

// ReadSecret reads a secret of one line from a file; the line's end is not part of it. Without a
// name there is none. It is as strict about the file as [ReadSecretFile].
func ReadSecret(name string) ([]byte, error) { return oneLine(name, othersWrite) }

func oneLine(name string, refused fs.FileMode) ([]byte, error) {
	const limit = 4096
	if name == "" {
		return nil, nil
	}
	b, err := readFileOf(name, limit, refused)
	if err != nil {
		return nil, err
	}
	s := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	switch {
	case strings.TrimSpace(s) == "":
		return nil, fmt.Errorf("%s is empty", name)
	case strings.ContainsAny(s, "\r\n"):
		return nil, errors.New(name + " has more than one line")
	}
	return []byte(s), nil
}

// Modes of files that everybody on the machine may read, or change. A group is let in: it is how
// Kubernetes (defaultMode, fsGroup) and services with a user of their own are.
const (
	othersRead  fs.FileMode = 0o006
	othersWrite fs.FileMode = 0o002
)

// ReadSecretFile reads a file of at most limit bytes. A file that all users of the machine can
// change is refused. One that all can read is only warned of, see [Config.Warnings], because
// containers mount their secrets so by default. For a symbolic link, the mode of its target counts.
func ReadSecretFile(name string, limit int64) ([]byte, error) {
	return readFileOf(name, limit, othersWrite)
}

// exposed says that everybody on the machine may read, or change, a file; nil: not so.
func exposed(name string, info fs.FileInfo, refused fs.FileMode) error {
	open := info.Mode().Perm() & refused
	if open == 0 || !info.Mode().IsRegular() || runtime.GOOS == "windows" { // which has no such modes
		return nil
	}
	may, mend := "read", "600"
	if open&othersWrite != 0 {
		may = "change"
	}
	if refused == othersWrite {
		mend = "o-w"
	}
	return fmt.Errorf("all users of this machine can %s %s; chmod %s %s (a mounted secret: give it the mode 0440)", may, name, mend, name)
}

func readFileOf(name string, limit int64, refused fs.FileMode) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := exposed(name, info, refused); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(b)) > limit:
		return nil, fmt.Errorf("%s is over %d bytes, the most that is read of it", name, limit)
	}
	return b, nil
}
