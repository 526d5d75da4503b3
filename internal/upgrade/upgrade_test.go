package upgrade

import (
	"net/http"
	"testing"
)

func TestAsked(t *testing.T) { // SM-04
	for _, c := range []struct {
		connection, upgrade []string
		want                bool
	}{
		{[]string{"Upgrade"}, []string{"websocket"}, true},
		{[]string{"keep-alive, upgrade"}, []string{"WebSocket/13"}, true},
		{[]string{"keep-alive", " UPGRADE "}, []string{"h2c", "websocket"}, true},
		{[]string{"Upgrade"}, []string{"h2c, SPDY/3.1"}, true},
		{[]string{"Upgrade, HTTP2-Settings"}, []string{"h2c"}, false},
		{[]string{"Upgrade"}, []string{"TLS/1.2, HTTP/1.1"}, false},
		{[]string{"Upgrade"}, []string{""}, false},
		{[]string{"Upgrade"}, nil, false},
		{[]string{"keep-alive"}, []string{"websocket"}, false},
		{nil, []string{"websocket"}, false},
	} {
		h := http.Header{"Connection": c.connection, "Upgrade": c.upgrade}
		if got := Asked(h); got != c.want {
			t.Errorf("Asked(%v) = %v", h, got)
		}
	}
}
