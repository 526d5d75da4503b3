package main

import (
	"net"
	"os"
)

// tellSystemd says how the process is where a service manager asks for it: sd_notify(3). With
// Type=notify a start has ended when the gateway serves, and one that cannot has failed. What
// cannot be said changes nothing.
func tellSystemd(state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_, _ = c.Write([]byte(state))
}
