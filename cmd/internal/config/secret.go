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

// ReadSecret reads a secret of one line from a file; the line's end is not part of it. Without a name there is none. It is as strict
// about the file as [ReadSecretFile].
func ReadSecret(name string) ([]byte, error) {
	const limit = 4096
	if name == "" {
		return nil, nil
	}
	b, err := ReadSecretFile(name, limit)
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

// Modes that a file of secrets, or one that others may know but not change, must not have. A group is not refused: it is how
// Kubernetes (defaultMode, fsGroup) and services with a user of their own are let in.
const (
	othersRead  fs.FileMode = 0o006
	othersWrite fs.FileMode = 0o002
)

// ReadSecretFile reads a file of at most limit bytes that holds secrets. One that everybody on the machine may read, or change, is
// refused: what is in it is no secret any more. Of a symbolic link, the file behind it counts.
func ReadSecretFile(name string, limit int64) ([]byte, error) {
	return readFileOf(name, limit, othersRead)
}

// ReadTrustedFile is [ReadSecretFile] for what everybody may read, such as hashes of tokens, but not change.
func ReadTrustedFile(name string, limit int64) ([]byte, error) {
	return readFileOf(name, limit, othersWrite)
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
	open := info.Mode().Perm() & refused
	if open != 0 && info.Mode().IsRegular() && runtime.GOOS != "windows" { // which has no such modes
		may, mend := "read", "600"
		if open&othersWrite != 0 {
			may = "change"
		}
		if refused == othersWrite {
			mend = "o-w"
		}
		return nil, fmt.Errorf("everybody on this machine may %s %s; chmod %s %s (a mounted secret: give it the mode 0440)", may, name, mend, name)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(b)) > limit:
		return nil, fmt.Errorf("%s is over %d bytes, which is none of its kind", name, limit)
	}
	return b, nil
}
