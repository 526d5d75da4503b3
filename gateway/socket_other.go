//go:build !linux

package gateway

import "syscall"

// ownerOnly: elsewhere a socket has no mode before it has a name. The directory is what keeps others away in between.
func ownerOnly(string, string, syscall.RawConn) error { return nil }
