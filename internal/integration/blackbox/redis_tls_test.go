package blackbox

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/stet-dev/stet/internal/integration/testserver"
)

// A Redis whose certificate is of a private authority is trusted by the file that is named, and by
// nothing else; two gateways with other prefixes share it (S20).
func TestRedisOfAPrivateAuthority(t *testing.T) {
	dir := t.TempDir()
	if _, err := certificate(dir); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(dir, "cert.pem")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	testserver.NewRedis(t, "--appendonly", "yes", "--tls-port", port, "--tls-cert-file", ca, "--tls-key-file", filepath.Join(dir, "key.pem"),
		"--tls-auth-clients", "no", "--tls-ca-cert-file", ca)
	for _, c := range []struct {
		parameters string
		opens      bool
	}{{"?ca_file=" + ca + "&prefix=shop", true}, {"?prefix=bank&ca_file=" + ca, true}, {"", false}} {
		t.Run(c.parameters, func(t *testing.T) {
			target := gatewayTarget("redis")
			target.Open = func(t testing.TB, s Spec) (Server, error) {
				g, err := newGateway(t, "memory", s)
				if err != nil {
					return nil, err
				}
				g.dsn = fmt.Sprintf("rediss://127.0.0.1:%s%s", port, c.parameters)
				return g, g.open()
			}
			if !c.opens {
				if _, err := target.Open(t, Spec{}); err == nil {
					t.Error("a certificate of nobody is trusted")
				}
				return
			}
			p := newC(t, Case{ID: "FX-15"}, newPool(t, target))
			first := p.POST("/fx/json", key("same")).First(201)
			first.Retry().Replays(first)
		})
	}
}
