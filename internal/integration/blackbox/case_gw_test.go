package blackbox

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

const (
	proxied = "a row about forwarding, and nothing is forwarded here"
	warm    = "/fx/json" // opens the connection that the next request reuses
)

// The gateway.
var casesGW = []Case{
	{ID: "GW-01", Need: NeedOwn, Only: "gateway", Why: proxied, Run: func(c *C) { // I12
		for name, text := range map[string]string{"empty": "", "body": `{"a":1}`} {
			c.Named(name + "-warm").POST(warm).First(201)
			before := c.srv.Fixture().Connections()
			d := c.Named(name)
			first := d.POST("/fx/drop", body(text))
			if after := c.srv.Fixture().Connections(); after != before {
				c.Fatalf("%d new connections: this row is about a reused one, or about a request that is sent again", after-before)
			}
			first.Problem("upstream-failed")
			d.Effects(1)
			first.Retry().Problem("outcome-unknown")
			d.State("unknown")
			d.Effects(1)
		}
	}},
	{ID: "GW-02", Need: NeedOwn, Only: "gateway", Why: proxied, Run: func(c *C) {
		up := c.srv.(upstream)
		up.StopUpstream()
		first := c.POST("/fx/json")
		first.Problem("upstream-unreachable")
		c.State("retryable")
		if err := up.StartUpstream(); err != nil {
			c.Fatal(err)
		}
		done := first.Retry().First(201)
		done.Retry().Replays(done)
		c.Effects(1)
	}},
	{ID: "GW-03", Policy: "policy: {execution_timeout_s: 2, lease_s: 3}", Only: "gateway", Why: proxied, Run: func(c *C) {
		first := c.POST("/fx/hang?obey") // it leaves when the gateway gives up, a lease later: an answer until then would be the outcome
		first.Problem("execution-timeout")
		c.Left(1)
		first.Retry().Problem("outcome-unknown")
		c.State("unknown")
		c.Effects(1)
	}},
	{ID: "GW-stopped", Policy: "policy: {execution_timeout_s: 3, lease_s: 3}", Need: NeedPause, Only: "gateway", Why: proxied, Run: func(c *C) { // K14
		owner, began := c.Begun("POST", "/fx/hang"), time.Now()
		c.srv.Pause(0)
		c.Release(1)
		c.Until("the time and the lease are over, and the answer is in the socket", func() bool { return time.Since(began) > 3500*time.Millisecond })
		c.srv.Continue(0)
		first := owner.Wait().First(201)
		first.Retry().Replays(first)
		c.Effects(1)
	}},
	{ID: "GW-04", Run: func(c *C) {
		d := c.With(asTheyAre).Named("replay")
		first, second := d.Twice(503, "/fx/status/503")
		first.Has("Retry-After", "7")
		second.Has("Retry-After", "7") // with the marker: old advice
		d.Effects(1)
		d = c.With(release).Named("release")
		d.POST("/fx/script/503,201").First(503).Retry().First(201)
		d.Effects(2)
	}},
	{ID: "GW-05", Run: func(c *C) {
		for _, how := range []string{"length", "chunk"} {
			if how == "chunk" && !c.target.Gateway {
				continue // a handler cannot break its own framing
			}
			d := c.Named(how)
			first := d.POST("/fx/truncate?how=" + how)
			if first.Err == nil && first.Status == 201 {
				first.fail("a truncated response passed for a whole one")
			}
			if c.target.Gateway {
				first.Problem("upstream-failed")
			}
			first.Retry().Problem("outcome-unknown")
			d.State("unknown")
			d.Effects(1)
		}
	}},
	{ID: "GW-06", Only: "gateway", Why: proxied, Run: func(c *C) {
		n := c.Dial()
		n.Write("%s", c.head("POST /fx/seen?x=%7e HTTP/1.1", "Idempotency-Key: bare-key", "Content-Length: 7", "Connection: X-Hop, keep-alive",
			"X-Hop: 1", "Proxy-Connection: keep-alive", "Keep-Alive: timeout=9", "TE: gzip", "Proxy-Authorization: Basic eA==",
			"X-End: 2", "Stet-Fence: 1", "Stet-Attempt: 99", "Stet-Secret: x")+`{"a":1}`)
		seen := n.Read().First(201).seen()
		for _, name := range []string{"X-Hop", "Proxy-Connection", "Keep-Alive", "Te", "Connection", "Stet-Secret"} {
			if v, ok := seen.Header[name]; ok {
				c.Errorf("%s was forwarded: %q", name, v)
			}
		}
		for name, want := range map[string]string{"X-End": "2", echo: `"bare-key"`, "Stet-Attempt": "1", "X-Forwarded-For": "127.0.0.1"} {
			if got := seen.Header[name]; len(got) != 1 || got[0] != want {
				c.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if fence := seen.Header["Stet-Fence"]; len(fence) != 1 || fence[0] == "1" {
			c.Errorf("Stet-Fence: %q, want the gateway's own", fence)
		}
		if seen.URI != "/fx/seen?x=%7e" {
			c.Errorf("the target arrived as %q", seen.URI)
		}
		for setting, want := range map[string][]string{"bare": {"k"}, `"off"`: nil, "string": {`"k"`}} {
			d := c.With("policy: {upstream_key: " + setting + "}").Named(setting)
			if got := d.POST("/fx/seen", key(`"k"`)).First(201).seen().Header[echo]; strings.Join(got, "|") != strings.Join(want, "|") {
				c.Errorf("upstream_key %s: %q, want %q", setting, got, want)
			}
		}
	}},
	{ID: "GW-07", Policy: briefly, Need: NeedKill | NeedNodes, Run: func(c *C) {
		owner := c.Begun("POST", "/fx/hang")
		c.srv.Kill(0)
		owner.Wait().Broken()
		other := c.Node(1)
		retry := func() *Answer { return other.POST("/fx/hang") }
		c.lapsed(retry)
		retry().Problem("outcome-unknown")
		c.Effects(1)
	}},
	{ID: "GW-08", Need: NeedOwn, Only: "gateway", Why: proxied, Run: func(c *C) {
		first := c.POST("/fx/json").First(201)
		before := c.srv.Fixture().Connections()
		for range 20 {
			first.Retry().Replays(first)
		}
		if after := c.srv.Fixture().Connections(); after != before {
			c.Fatalf("%d connections for replays", after-before)
		}
		c.Seen(1)
		c.Effects(1)
	}},
	{ID: "GW-tls", Need: NeedTLS, Only: "gateway", Why: "TLS is the server's, and here the server is net/http", Run: func(c *C) {
		first := c.POST("/fx/json").First(201)
		second := first.Retry(h2).Replays(first)
		if second.Proto != "HTTP/2.0" {
			second.fail("want HTTP/2 with TLS, got %s", second.Proto)
		}
		c.Effects(1)
	}},
	{ID: "GW-drain", Need: NeedOwn, Only: "gateway", Why: "a program that embeds the middleware shuts its own server down", Run: func(c *C) {
		idle := c.Dial()
		ask := c.head("POST /fx/json HTTP/1.1", `Idempotency-Key: "kept"`, "Content-Length: 7") + `{"a":1}`
		idle.Write("%s", ask)
		idle.Read().First(201)
		owner := c.Start("POST", "/fx/hang")
		c.Entered(2)
		end := c.srv.(interface {
			Terminate()
			Ended() error
			published
		})
		end.Terminate()
		c.Until("it says that it is not ready", func() bool {
			res, err := end.Admin("/readyz")
			if err != nil {
				return false
			}
			res.Body.Close()
			return res.StatusCode == http.StatusServiceUnavailable
		})
		_, _ = idle.Conn.Write([]byte(ask)) // kept alive: told to go, unless it was closed already
		if a := idle.Read(); a.Err == nil && !a.Is(503).Close {
			a.fail("want Connection: close")
		}
		c.Release(1)
		owner.Wait().First(201) // what runs finishes
		if err := end.Ended(); err != nil {
			c.Fatalf("it ended with %v", err)
		}
		c.Effects(2)
	}},
	{ID: "GW-paths", Only: "gateway", Why: proxied, Policy: `routes: [{match: "POST /fx/{any...}", mode: required}]`, Run: func(c *C) {
		for i, path := range []string{"/fx//seen", "/fx/seen/../seen", "/fx/seen/./", "/fx/seen%2F", "/fx/seen;a=b", "/fx/a|b{c}^", "/fx/%7e~%41"} {
			d := c.Named(i)
			d.POST(path).First(201) // no redirect, no cleaning: matched only
			if got := d.Seen(1)[0].RequestURI; got != path {
				c.Errorf("%s arrived as %s", path, got)
			}
		}
		for _, path := range []string{"/fx/%2e%2e/seen", "/fx/..;/seen", "/fx/a%2F../seen", "/fx/seen%00", "/fx/seen#x"} { // C03
			d := c.Named(path)
			d.POST(path).Problem("invalid-target")
			d.Seen(0)
			d.Records(0)
		}
	}},
}

// upstream is a Server whose fixture can go away and come back at the same address.
type upstream interface {
	StopUpstream()
	StartUpstream() error
}

// published fetches a document of the admin listener.
type published interface {
	Admin(path string) (*http.Response, error)
}

// policyDocument reads /policy.json.
func policyDocument(c *C) (doc map[string]any) {
	c.Helper()
	res, err := c.srv.(published).Admin("/policy.json")
	if err != nil {
		c.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil || res.StatusCode != 200 {
		c.Fatalf("/policy.json: %d, %v", res.StatusCode, err)
	}
	return doc
}
