package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// Numbers that cannot be meant are refused where they enter.
func TestNumbersHaveBounds(t *testing.T) { // K12
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	valid := func() Config {
		return Config{Upstream: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Routes: []Route{{Match: "POST /"}}}
	}
	bounds.Refuses(t, configBounds, valid, func(c Config) error { _, err := New(e, c); return err })
	for _, c := range []Config{{Default: stethttp.Config{MinTTL: 24}}, {Routes: []Route{{Match: "POST /", Config: stethttp.Config{MinTTL: 24}}}}} {
		c.Upstream = valid().Upstream
		if _, err := New(e, c); err == nil || !strings.Contains(err.Error(), "Config.MinTTL is 24ns") {
			t.Errorf("a setting of the guard: %v", err)
		}
	}
	server := func() ServerConfig { return ServerConfig{Listen: "no address", Handler: http.NotFoundHandler()} }
	bounds.Refuses(t, serverBounds, server, func(c ServerConfig) error {
		_, err := NewServer(c)
		if set := new(Server).SetTimeouts(c); (set == nil) != (err == nil) && !strings.Contains(err.Error(), "no address") {
			t.Errorf("NewServer: %v, SetTimeouts: %v", err, set)
		}
		return err
	})
}
