//go:build linux || darwin || freebsd || netbsd || openbsd

package gateway

import (
	"net"
	"syscall"
)

// canPeek reports whether this system lets a connection be inspected without waiting for it.
const canPeek = true

// peer inspects an idle connection before it is used again. A request that is written to a
// connection that the other side has closed is lost, and it is unknown whether it ran.
type peer struct {
	raw   syscall.RawConn
	look  func(fd uintptr) bool
	errno error
}

func newPeer(c net.Conn) *peer {
	p := new(peer)
	if sc, ok := c.(syscall.Conn); ok {
		p.raw, _ = sc.SyscallConn() // nil if there is none
	}
	p.look = func(fd uintptr) bool {
		var b [1]byte
		_, _, p.errno = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return true
	}
	return p
}

// silent reports that the peer has neither closed the connection nor sent anything unasked.
func (p *peer) silent() bool {
	return p.raw != nil && p.raw.Read(p.look) == nil && p.errno == syscall.EAGAIN
}
