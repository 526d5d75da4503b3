package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// ReadSecret reads a secret of one line from a file; the line's end is not part of it. Without a name there is none.
func ReadSecret(name string) ([]byte, error) {
	const limit = 4096
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	s := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	switch {
	case err != nil:
		return nil, err
	case len(b) > limit:
		return nil, fmt.Errorf("%s is over %d bytes, which is no secret of one line", name, limit)
	case strings.TrimSpace(s) == "":
		return nil, fmt.Errorf("%s is empty", name)
	case strings.ContainsAny(s, "\r\n"):
		return nil, errors.New(name + " has more than one line")
	}
	return []byte(s), nil
}
