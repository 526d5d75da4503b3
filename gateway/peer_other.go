//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package gateway

import "net"

// canPeek is false on other systems: all requests go through [http.Transport], which keeps a reader
// on idle connections.
const canPeek = false

type peer struct{}

func newPeer(net.Conn) *peer { return nil }

func (*peer) silent() bool { return false }
