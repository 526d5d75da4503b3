package gateway

import "syscall"

// ownerOnly sets the mode of the socket before it has a name, so that no other user can connect in
// between.
func ownerOnly(_, _ string, c syscall.RawConn) (err error) {
	if bad := c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) }); bad != nil {
		return bad
	}
	return err
}
