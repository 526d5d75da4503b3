package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
)

// echo is an upstream that reports each request's head as it arrived, byte for byte.
func echo(t testing.TB) string {
	return tcpUpstream(t, func(c net.Conn, in *bufio.Reader) {
		for {
			var head strings.Builder
			length := 0
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == "\r\n" {
					break
				}
				head.WriteString(line)
				if name, v, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Content-Length") {
					length, _ = strconv.Atoi(strings.TrimSpace(v))
				} else if strings.EqualFold(name, "Transfer-Encoding") { // of what is empty
					length = len("0\r\n\r\n")
				}
			}
			if _, err := in.Discard(length); err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", head.Len(), head.String())
		}
	})
}

// sent is what the upstream got for a raw request.
func (r *rig) sent(text string) (line string, h http.Header) {
	r.Helper()
	c, in := r.raw(text)
	defer c.Close()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		r.Fatalf("%q: %v", text, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		r.Fatalf("%q: %s %s", text, res.Status, b)
	}
	tp := textproto.NewReader(bufio.NewReader(io.MultiReader(res.Body, strings.NewReader("\r\n"))))
	line = must(tp.ReadLine())
	m, err := tp.ReadMIMEHeader()
	if err != nil {
		r.Fatal(err)
	}
	return line, http.Header(m)
}

// refused is the answer to a raw request.
func (r *rig) refused(text string) answer {
	r.Helper()
	c, in := r.raw(text)
	defer c.Close()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res, string(b), err}
}

// GW-06: paths and queries reach the upstream byte for byte; a target in absolute-form never
// chooses it. Of what can be read in more than one way that holds where no route enforces anything.
func TestTargetsAreForwardedAsSent(t *testing.T) { // C03
	up := echo(t)
	t.Run("enforced", func(t *testing.T) {
		targetsAreForwarded(t, true, newRig(t, up, func(c *gateway.Config) {
			c.Routes = []gateway.Route{{Match: "/a/", MatchEncoded: true}, {Match: "POST /v1/{id}"}, {Match: "/tree/"}}
		}))
	})
	t.Run("not enforced", func(t *testing.T) {
		targetsAreForwarded(t, false, newRig(t, up, func(c *gateway.Config) {
			c.Default.Mode, c.Routes = stethttp.ModeOff, []gateway.Route{{Match: "/a/", Config: stethttp.Config{Mode: stethttp.ModeShadow}}}
		}))
	})
}

func targetsAreForwarded(t *testing.T, enforced bool, r *rig) {
	for i, target := range []string{
		"/", "/?", "/??", "/?a=1&a=2;b", "//a/../b%2Fc?x=%zz;", "/a//b", "/a/./b/..", "/a/b/../../..", "/tree", "/%61", "/%2e%2e/x", "/a%2fb",
		"/a%00b", "/a|b", "/{id}", "/a\"<>^`", "/\xc3\xa9", "/\xff", "/a#b", "/a?b#c", "/*", "/a;b=c,d", "/a:b@c", "//", "///x", "/http://x/",
	} {
		if enforced && (strings.Contains(target, "#") || strings.Contains(target, "%00") || strings.Contains(target, "%2e")) {
			r.problem(r.refused("GET "+target+" HTTP/1.1\nHost: api.example\n\n"), stethttp.InvalidTarget)
			continue
		}
		for _, head := range []string{"GET %s HTTP/1.1", "POST %s HTTP/1.1\nIdempotency-Key: k" + strconv.Itoa(i) + "\nContent-Length: 0"} {
			head = fmt.Sprintf(head, target)
			want, _, _ := strings.Cut(head, "\n")
			if line, _ := r.sent(head + "\nHost: api.example\n\n"); line != want {
				t.Errorf("%q arrived as %q", want, line)
			}
		}
	}
	for target, want := range map[string]string{
		"http://evil.example/p?q": "/p?q", "http://evil.example": "/", "https://u:p@evil.example:1/a%2Fb|": "/a%2Fb|", "http://evil.example?x=/y": "/?x=/y",
	} {
		line, h := r.sent("GET " + target + " HTTP/1.1\nHost: api.example\n\n")
		if line != "GET "+want+" HTTP/1.1" || h.Get("Authorization") != "" {
			t.Errorf("%q arrived as %q %v", target, line, h)
		}
	}
	if line, _ := r.sent("OPTIONS * HTTP/1.1\nHost: api.example\n\n"); line != "OPTIONS * HTTP/1.1" {
		t.Errorf("OPTIONS * arrived as %q", line)
	}
	for bad, code := range map[string]stethttp.Code{"CONNECT evil.example:443": "invalid-method", "GET mailto:x": "invalid-target", "PRI *": "invalid-method"} {
		r.problem(r.refused(bad+" HTTP/1.1\nHost: evil.example:443\n\n"), code)
	}
}

// What a proxy in front of the gateway did to the path stays done.
func TestStrippedPrefixStaysStripped(t *testing.T) {
	r := newRig(t, echo(t), nil)
	srv := httptest.NewServer(http.StripPrefix("/api", r.gw))
	defer srv.Close()
	r.url = srv.URL
	for path, want := range map[string]string{"/api/a": "/a", "/api/a|b": "/a%7Cb"} {
		if line, _ := r.sent("GET " + path + " HTTP/1.1\nHost: x\n\n"); line != "GET "+want+" HTTP/1.1" {
			t.Errorf("%s arrived as %q", path, line)
		}
	}
}

// GW-06: hop-by-hop headers stop here, the gateway's own come from no one else, and Connection
// takes away neither the key nor whose request it is.
func TestHeadersForwarded(t *testing.T) { // C13
	r := newRig(t, echo(t), func(c *gateway.Config) {
		c.Scope, c.KeepHeaders = stethttp.HeaderScope("X-Tenant-Id"), []string{"x-tenant-id"}
	})
	_, h := r.sent(`POST / HTTP/1.1
Host: api.example:8443
Idempotency-Key: "k"
X-Tenant-Id: t1
Authorization: Bearer x
Connection: Idempotency-Key, X-Tenant-Id, authorization, X-Hop, close
X-Hop: 1
Keep-Alive: timeout=9
Proxy-Connection: keep-alive
Proxy-Authorization: Basic eA==
TE: gzip
Upgrade: h2c
Stet-Attempt: 99
Stet-Fence: 99
Stet-Downstream-Key: other
Stet.Downstream.Key: another
STET_FENCE: 99
Idempotency_Key: "another"
Stet-Outcome: x
X-End: 1
X-End: 2
X-Forwarded-For: 192.0.2.1
X-Forwarded-For: 192.0.2.2
X-Forwarded-Proto: https
X-Forwarded-Port: 443
X_Forwarded_For: 192.0.2.9
X_Tenant_Id: t2
Forwarded: for=192.0.2.1
Via: 1.0 front
Content-Length: 2

{}`)
	rec, err := r.engine.Get(t.Context(), stet.ID{Scope: "t1", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Host": {"api.example:8443"}, "Idempotency-Key": {`"k"`}, "X-Tenant-Id": {"t1"}, "Authorization": {"Bearer x"}, "X-End": {"1", "2"},
		"Content-Length": {"2"}, "Stet-Attempt": {"1"}, "Stet-Fence": {strconv.FormatInt(rec.Fence(), 10)}, "Stet-Downstream-Key": {rec.LifeKey()},
		"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"api.example:8443"},
		"Forwarded": {`for=127.0.0.1;host="api.example:8443";proto=http`}, "Via": {"1.0 front, 1.1 stet"},
	}
	if !maps.EqualFunc(h, want, slices.Equal) {
		t.Fatalf("the upstream got\n%v, want\n%v", h, want)
	}
}

// What a proxy says of those before it goes on, where the proxy is trusted.
func TestTrustedProxies(t *testing.T) { // C13
	for _, row := range []struct {
		trusted string
		believe bool
	}{{"127.0.0.0/8", true}, {"127.0.0.1/32", true}, {"10.0.0.0/8", false}, {"::1/128", false}} {
		r := newRig(t, echo(t), func(c *gateway.Config) {
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix(row.trusted)}
		})
		_, h := r.sent("PUT / HTTP/1.1\nHost: api.example\nX-Forwarded-For: 192.0.2.1\nX-Forwarded-For: 192.0.2.2\nX-Forwarded-Proto: https\n" +
			"X-Forwarded-Host: first.example\nX-Forwarded-Port: 443\nX_Forwarded_Port: 443\nForwarded: for=192.0.2.1\nContent-Length: 0\n\n")
		want := http.Header{"Host": {"api.example"}, "Content-Length": {"0"}, "Via": {"1.1 stet"}, "X-Forwarded-For": {"127.0.0.1"},
			"X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"api.example"}, "Forwarded": {"for=127.0.0.1;host=api.example;proto=http"}}
		if row.believe {
			want["X-Forwarded-For"], want["X-Forwarded-Proto"] = []string{"192.0.2.1, 192.0.2.2, 127.0.0.1"}, []string{"https"}
			want["X-Forwarded-Host"], want["X-Forwarded-Port"] = []string{"first.example"}, []string{"443"}
			want["Forwarded"] = []string{"for=192.0.2.1, for=127.0.0.1;host=api.example;proto=http"}
		}
		if !maps.EqualFunc(h, want, slices.Equal) {
			t.Errorf("trusted %s: the upstream got\n%v, want\n%v", row.trusted, h, want)
		}
	}
}

// Via goes both ways, and is no part of a result.
func TestVia(t *testing.T) { // C13
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Via", "1.1 behind")
		fmt.Fprint(w, req.Header["Via"])
	}), func(c *gateway.Config) {
		c.Routes = []gateway.Route{{Match: "/off", Config: stethttp.Config{Mode: stethttp.ModeOff}}, {Match: "/shadow", Config: stethttp.Config{Mode: stethttp.ModeShadow}}}
	})
	for _, path := range []string{"/", "/off", "/shadow"} {
		if a := r.status(r.post("k"+path[1:], path, ""), 200); a.Header.Get("Via") != "1.1 behind, 1.1 stet" || a.body != "[1.1 stet]" {
			t.Errorf("%s: Via: %q, and upstream %s", path, a.Header["Via"], a.body)
		}
	}
	if a := r.post("k", "/", ""); a.Header.Get("Idempotent-Replayed") == "" || a.Header["Via"] != nil {
		t.Errorf("a replay with %v", a.Header)
	}
}

// The key goes on in the form the upstream wants; what the client sent without a claim goes on as
// it is.
func TestUpstreamKey(t *testing.T) {
	r := newRig(t, echo(t), func(c *gateway.Config) {
		opaque := stethttp.Config{Key: stet.KeyRule{Syntax: stet.Opaque}}
		c.Routes = []gateway.Route{
			{Match: "/bare", UpstreamKey: gateway.ForwardBare},
			{Match: "/off", UpstreamKey: gateway.ForwardNothing},
			{Match: "/opaque", Config: opaque},
			{Match: "/opaque-bare", Config: opaque, UpstreamKey: gateway.ForwardBare},
			{Match: "/unguarded", Config: stethttp.Config{Mode: stethttp.ModeOff}, UpstreamKey: gateway.ForwardNothing},
			{Match: "/renamed", Config: stethttp.Config{KeyHeader: "X-Request-Key"}},
		}
	})
	for _, row := range []struct{ path, header, sent, want string }{
		{"/", "Idempotency-Key", `a-1`, `"a-1"`},
		{"/", "Idempotency-Key", `"a\"2";p=1`, `"a\"2"`},
		{"/bare", "Idempotency-Key", `"a-3"`, `a-3`},
		{"/bare", "Idempotency-Key", `"a 4"`, `"a 4"`},
		{"/off", "Idempotency-Key", `"a-5"`, ``},
		{"/opaque", "Idempotency-Key", `"a-6"`, `"a-6"`},
		{"/opaque-bare", "Idempotency-Key", `"a-7"`, `"a-7"`},
		{"/unguarded", "Idempotency-Key", `a-8 , x`, `a-8 , x`},
		{"/renamed", "X-Request-Key", `a-9`, `"a-9"`},
	} {
		_, h := r.sent("POST " + row.path + " HTTP/1.1\nHost: x\nConnection: " + row.header + "\n" + row.header + ": " + row.sent + "\nContent-Length: 0\n\n")
		if got := h.Get(row.header); got != row.want {
			t.Errorf("%s %s: %s arrived as %q", row.path, row.header, row.sent, got)
		}
		if guarded := row.path != "/unguarded"; guarded != (h.Get("Stet-Fence") != "") {
			t.Errorf("%s: %v", row.path, h)
		}
	}
}

// Interim answers go on at once and are no part of the result; trailers go both ways.
func TestInterimAnswersAndTrailers(t *testing.T) { // C13
	ours := []string{"X-Tenant-Id", "X_Tenant_Id", "Stet-Fence", "STET_FENCE", "Idempotency-Key", "Idempotency_Key", "X-Hop", "Authorization", "Via", "Forwarded",
		"X-Forwarded-For", "X-Forwarded-Port", "X_Forwarded_Proto", "Connection", "Keep-Alive", "Upgrade", "TE", "Proxy-Authorization", "Proxy-Connection"}
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, "body ", len(req.Trailer), req.Trailer.Get("X-In"))
		w.Header().Set("X-Sum", "1")
	}), func(c *gateway.Config) { c.KeepHeaders = []string{"X-Tenant-Id"} })
	for _, key := range []string{"Idempotency-Key: k\n", "Idempotency-Key: k\n", "X-None: x\n"} {
		method := "POST"
		if strings.HasPrefix(key, "X-") {
			method = "PUT"
		}
		_, in := r.raw(method + " / HTTP/1.1\nHost: x\n" + key + "Connection: X-Hop\nTrailer: X-In, " + strings.Join(ours, ", ") + "\nTransfer-Encoding: chunked\n\n" +
			"2\nhi\n0\nX-In: yes\n" + strings.Join(ours, ": other\n") + ": other\n\n")
		res, err := http.ReadResponse(in, nil)
		replay := err == nil && res.Header.Get("Idempotent-Replayed") != ""
		if err == nil && res.StatusCode == http.StatusEarlyHints && !replay {
			if res.Header.Get("Link") == "" {
				t.Fatalf("%v", res.Header)
			}
			res, err = http.ReadResponse(in, nil)
		} else if !replay {
			t.Fatalf("no interim answer: %v %v", res, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil || string(b) != "body 1yes" || res.StatusCode != 200 || res.Header.Get("Link") != "" {
			t.Fatalf("%q %v %v", b, err, res)
		}
		if res.Trailer.Get("X-Sum") != "1" {
			t.Fatalf("trailer %v", res.Trailer)
		}
	}
}

// SM-06: a guarded body is here before it is asked for upstream; an unguarded one is asked for by
// the upstream.
func TestExpectContinue(t *testing.T) {
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		b, _ := io.ReadAll(req.Body)
		fmt.Fprintf(w, "%s %q", b, req.Header["Expect"])
	}), nil)
	for head, want := range map[string]string{
		"POST / HTTP/1.1\nIdempotency-Key: k\n": `hi []`,
		"PUT / HTTP/1.1\n":                      `hi ["100-continue"]`,
	} {
		c, in := r.raw(head + "Host: x\nContent-Length: 2\nExpect: 100-continue\n\n")
		if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusContinue {
			t.Fatalf("%v, %v", res, err)
		}
		fmt.Fprint(c, "hi")
		res, err := http.ReadResponse(in, nil)
		for err == nil && res.StatusCode == http.StatusContinue { // the server's own may be followed by the upstream's
			res, err = http.ReadResponse(in, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(res.Body); res.StatusCode != 200 || string(b) != want {
			t.Errorf("%d %s", res.StatusCode, b)
		}
	}
	_, in := r.raw("PUT /refuse HTTP/1.1\nHost: x\nContent-Length: 2\nExpect: 100-continue\n\n")
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusForbidden {
		t.Fatalf("the upstream refused without the body: %v, %v", res, err)
	}
}

// SM-04: what asks for an upgrade by a GET passes, with or without a key, and is not recorded.
func TestUpgrade(t *testing.T) {
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") != "line" {
			w.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: line\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		fmt.Fprint(rw, "got "+line)
		rw.Flush()
	}), nil)
	switched := func(r *rig, method string) {
		c, in := r.raw(method + " / HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: line\nIdempotency-Key: k\n\n")
		if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v, %v", res, err)
		}
		fmt.Fprint(c, "hello\n")
		if line, err := in.ReadString('\n'); line != "got hello\n" {
			t.Fatalf("%q, %v", line, err)
		}
		c.Close()
		r.absent("k")
	}
	switched(r, "GET")
	for _, mode := range []stethttp.Mode{stethttp.ModeOff, stethttp.ModeShadow} { // which take nothing away
		r := newRig(t, r.upstream, func(c *gateway.Config) { c.Default.Mode = mode })
		switched(r, "GET")
		switched(r, "POST")
	}
}

// Streams are passed on as they are written, not when a buffer is full.
func TestStreamsAreLive(t *testing.T) {
	goOn := make(chan struct{})
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", req.URL.Query().Get("type"))
		fmt.Fprint(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-goOn
		fmt.Fprint(w, "data: 2\n\n")
	}), nil)
	for _, head := range []string{
		"GET /?type=text/event-stream HTTP/1.1\n", "GET /?type=text/plain HTTP/1.1\n",
		"POST /?type=text/event-stream HTTP/1.1\nIdempotency-Key: k\nContent-Length: 0\n",
	} {
		_, in := r.raw(head + "Host: x\n\n")
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, len("data: 1\n\n"))
		if _, err := io.ReadFull(res.Body, buf); err != nil {
			t.Fatal(err)
		}
		goOn <- struct{}{}
		if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "data: 2\n\n" {
			t.Fatalf("%q, %v", rest, err)
		}
	}
}

// What the upstream says about the outcome is for the gateway alone, and redirects are the client's
// to follow.
func TestAnswersForwarded(t *testing.T) {
	n := 0
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		n++
		w.Header().Set("Stet-Outcome", req.URL.Query().Get("say"))
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
		fmt.Fprint(w, "\x00not gzip")
	}), nil)
	check := func(a answer) {
		t.Helper()
		r.status(a, http.StatusTemporaryRedirect)
		for _, name := range []string{"Stet-Outcome", "X-Hop"} {
			if a.Header[name] != nil {
				t.Errorf("%s reached the client", name)
			}
		}
		if a.body != "\x00not gzip" || a.Header.Get("Location") != "/elsewhere" || a.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%q %v", a.body, a.Header)
		}
	}
	check(r.do("PUT", "/?say=not-executed", "", nil))
	check(r.post("k1", "/?say=not-executed", ""))
	check(r.post("k1", "/?say=not-executed", ""))
	check(r.post("k2", "/?say=unknown", ""))
	if n != 4 { // one that is proven not executed runs again
		t.Fatalf("%d requests reached the upstream, want 4", n)
	}
	r.state("k1", stet.Retryable, "elsewhere") // as each redirection, it frees the key for any request
	r.state("k2", stet.Unknown, "stated")
}

// A client that breaks off its own upload is not taken for a failing upstream.
func TestUnkeyedUploadBreaksOff(t *testing.T) {
	got := make(chan error, 1)
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		_, err := io.Copy(io.Discard, req.Body)
		got <- err
	}), nil)
	c, _ := r.raw("PUT / HTTP/1.1\nHost: x\nContent-Length: 10\n\nhalf")
	c.Close()
	if err := <-got; err == nil {
		t.Fatal("half a body passed for a whole one")
	}
	if log := r.log.String(); log != "" {
		t.Errorf("the upstream is blamed: %s", log)
	}
}

// The upstream gets a key for systems further down: one for all attempts of a life, and another for
// each life and scope. A client cannot say it.
func TestDownstreamKey(t *testing.T) { // N03
	var keys []string
	r := newRig(t, upstream(t, func(w http.ResponseWriter, req *http.Request) {
		keys = append(keys, strings.Join(req.Header["Stet-Downstream-Key"], ","))
		if len(keys) == 1 {
			w.Header().Set("Stet-Outcome", "not-executed")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}), func(c *gateway.Config) { c.Scope = stethttp.HeaderScope("X-Tenant") })
	send := func(method, tenant, key string, status int) {
		r.status(r.do(method, "/", "{}", header{"X-Tenant": tenant, "Idempotency-Key": key, "Stet-Downstream-Key": "mine", "stet_downstream_key": "mine"}), status)
	}
	send("POST", "a", "k", 503)
	send("POST", "a", "k", 200) // the second attempt
	send("POST", "b", "k", 200) // another scope
	send("POST", "a", "l", 200) // another key
	rec, err := r.engine.Get(t.Context(), stet.ID{Scope: "a", Key: "k"})
	if err == nil {
		err = r.engine.Operator().Purge(t.Context(), rec.ID, rec.Version, stet.Note{Who: "test", Why: "another life"})
	}
	if err != nil {
		t.Fatal(err)
	}
	send("POST", "a", "k", 200) // another life
	r.status(r.do("PUT", "/", "{}", header{"Stet-Downstream-Key": "mine"}), 200)
	if len(keys) != 6 || keys[0] != keys[1] || keys[5] != "" {
		t.Fatalf("%q", keys)
	}
	different := map[string]bool{}
	for _, key := range keys[1:5] {
		if different[key] = true; len(key) != 43 || strings.Trim(key, "-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("%q is no such key", key)
		}
	}
	if len(different) != 4 {
		t.Errorf("two scopes, two keys and two lives have %q", keys[1:5])
	}
	if rec, err = r.engine.Get(t.Context(), rec.ID); err != nil || rec.LifeKey() != keys[4] {
		t.Errorf("the record has %q, %v; the upstream was sent %q", rec.LifeKey(), err, keys[4])
	}
}

// A stream of lines reaches the client line by line.
func TestStreamsOfLines(t *testing.T) { // Q15
	read := make(chan struct{})
	r := newRig(t, upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, "1\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-read:
		case <-time.After(patience):
			t.Error("the line does not reach the client")
		}
		_, _ = io.WriteString(w, "2\n")
	}), nil)
	_, in := r.raw("POST / HTTP/1.1\nHost: x\nIdempotency-Key: k\nContent-Type: application/json\nContent-Length: 2\n\n{}")
	res := must(http.ReadResponse(in, nil))
	line := make([]byte, 2)
	if _, err := io.ReadFull(res.Body, line); err != nil || string(line) != "1\n" {
		t.Fatalf("%q, %v", line, err)
	}
	close(read)
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "2\n" {
		t.Errorf("%q, %v", rest, err)
	}
	r.problem(r.post("k", "/", "{}"), stethttp.ResultNotRetained)
}
