package door

import (
	"net/http"
	"reflect"
	"testing"
)

func TestOffersUpgrade(t *testing.T) { // SM-04
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
		if got := OffersUpgrade(h); got != c.want {
			t.Errorf("OffersUpgrade(%v) = %v", h, got)
		}
	}
}

func TestUpgrades(t *testing.T) { // C01
	offer := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	extended := http.Header{":protocol": {"websocket"}}
	for _, c := range []struct {
		method string
		major  int
		header http.Header
		want   bool
	}{
		{"GET", 1, offer, true},
		{"GET", 1, http.Header{}, false},
		{"POST", 1, offer, false},
		{"DELETE", 1, offer, false},
		{"HEAD", 1, offer, false},
		{"get", 1, offer, false},
		{"CONNECT", 1, offer, false},
		{"CONNECT", 1, extended, false},
		{"CONNECT", 2, http.Header{}, false},
		{"CONNECT", 2, extended, true},
		{"POST", 2, extended, false},
	} {
		if got := Upgrades(&http.Request{Method: c.method, ProtoMajor: c.major, Header: c.header}); got != c.want {
			t.Errorf("%s over HTTP/%d with %v: %v", c.method, c.major, c.header, got)
		}
	}
}

func TestWithdrawUpgrade(t *testing.T) { // C01
	for _, c := range []struct{ before, after []string }{
		{[]string{"Upgrade"}, nil},
		{[]string{" upgrade ,, UPGRADE", "Upgrade"}, nil},
		{[]string{"keep-alive, Upgrade, X-Hop", "X-End"}, []string{"keep-alive, X-Hop, X-End"}},
		{[]string{"keep-alive", "X-Hop"}, []string{"keep-alive", "X-Hop"}},
		{nil, nil},
	} {
		h := http.Header{"Upgrade": {"websocket"}, "X": {"1"}}
		if c.before != nil {
			h["Connection"] = c.before
		}
		withdrawUpgrade(h)
		if got := h["Connection"]; !reflect.DeepEqual(got, c.after) || h["Upgrade"] != nil || h["X"] == nil {
			t.Errorf("%q: %v is left", c.before, h)
		}
	}
}
