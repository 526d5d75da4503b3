package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// listenUnix binds a Unix socket that only its owner can connect to. It replaces a socket that a
// killed process has left behind, but neither a socket that a process listens on nor a file of
// another kind.
func listenUnix(path string) (net.Listener, error) {
	lc := net.ListenConfig{Control: ownerOnly}
	l, err := lc.Listen(context.Background(), "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err = removeStale(path); err == nil {
			l, err = lc.Listen(context.Background(), "unix", path)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil { // on systems on which ownerOnly does nothing
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func removeStale(path string) error {
	switch info, err := os.Lstat(path); {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s exists and is not a socket; remove it, or choose another path", path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("%s: another process listens on it; stop that process, or choose another path", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
