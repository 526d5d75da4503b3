package blackbox

import "testing"

func TestGateway(t *testing.T) {
	for _, store := range []string{"memory", "file", "sqlite"} {
		t.Run(store, func(t *testing.T) { runCases(t, gatewayTarget(store)) })
	}
}

// T22: behind a gateway, a reset or a timeout freed the key, or left it locked for good; either way nobody knew.
func TestPeer_UpstreamResetFreesKey(t *testing.T) {
	target := gatewayTarget("memory")
	peer(t, target, Case{Policy: "policy: {execution_timeout_s: 0.3}"}, func(c *C) {
		for _, path := range []string{"/fx/drop", "/fx/truncate?how=chunk", "/fx/hang?obey"} {
			d := c.Named(path[4:8])
			first := d.POST(path)
			if first.Status != 502 && first.Status != 504 {
				first.fail("want 502 or 504")
			}
			first.Retry().Problem("outcome-unknown")
			d.Effects(1)
		}
	})
}
