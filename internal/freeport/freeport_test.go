package freeport

import (
	"fmt"
	"net"
	"testing"
)

// A port is one test's, also once nothing listens on it.
func TestOf(t *testing.T) {
	ports := Of(t, 3)
	if ports[0] == ports[1] || ports[1] == ports[2] || ports[0] == ports[2] {
		t.Errorf("twice the same: %d", ports)
	}
	for _, port := range ports {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := take(port); err == nil {
			t.Errorf("%d was given while something listens there", port)
		}
		_ = l.Close()
		if _, err := take(port); err == nil {
			t.Errorf("%d was given twice", port)
		}
	}
}
