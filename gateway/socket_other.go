//go:build !linux

package gateway

import "syscall"

// ownerOnly does nothing: on this system a socket has no mode before it has a name. The directory
// has to keep other users away in between.
func ownerOnly(string, string, syscall.RawConn) error { return nil }
