package stethttp_test

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// wire is a real connection to a handler, by one version of HTTP.
type wire struct {
	t     *testing.T
	name  string
	url   *url.URL
	major int
	*http.Transport
}

// wires serves h over HTTP/1.1, HTTP/2 with TLS, and HTTP/2 without.
func wires(t *testing.T, h http.Handler) []*wire {
	t.Helper()
	var all []*wire
	for _, name := range []string{"http/1.1", "h2", "h2c"} {
		w := &wire{t: t, name: name, major: 2, Transport: &http.Transport{Protocols: new(http.Protocols)}}
		srv := httptest.NewUnstartedServer(h)
		switch name {
		case "http/1.1":
			w.major = 1
			w.Protocols.SetHTTP1(true)
			srv.Start()
		case "h2":
			w.Protocols.SetHTTP2(true)
			srv.EnableHTTP2 = true
			srv.StartTLS()
			w.TLSClientConfig = &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
		case "h2c":
			w.Protocols.SetUnencryptedHTTP2(true)
			srv.Config.Protocols = new(http.Protocols)
			srv.Config.Protocols.SetUnencryptedHTTP2(true)
			srv.Start()
		}
		w.url, _ = url.Parse(srv.URL)
		t.Cleanup(func() { w.CloseIdleConnections(); srv.Close() })
		all = append(all, w)
	}
	return all
}

// send sends a request with a target as it is, and fields as they are: net/http's client makes
// nothing of them.
func (w *wire) send(method, target, body string, fields ...string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "GET", w.url.String(), strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	path, query, _ := strings.Cut(target, "?")
	req.Method = method
	req.URL = &url.URL{Scheme: w.url.Scheme, Host: w.url.Host, Opaque: path, RawQuery: query}
	for i := 0; i < len(fields); i += 2 {
		req.Header[fields[i]] = append(req.Header[fields[i]], fields[i+1])
	}
	res, err := w.RoundTrip(req)
	if err != nil {
		w.t.Fatalf("%s %s %s: %v", w.name, method, target, err)
	}
	if res.ProtoMajor != w.major {
		w.t.Fatalf("%s: the answer came by %s", w.name, res.Proto)
	}
	w.t.Cleanup(func() { res.Body.Close() })
	return res
}

// TestTargetsThatReadersDifferIn are refused whatever the method, before anything is looked up.
func TestTargetsThatReadersDifferIn(t *testing.T) { // C03
	r := newRig(t, stethttp.Config{}, created)
	for _, w := range wires(t, r.handler) {
		for _, target := range []string{"/public/%2e%2e/charges", "/x/%252e/charges", "/x/..;/charges", "/x/..%2Fcharges", `/x\charges`, "/charges#x", "/charges?a#b",
			"/charges%00", "/charges%0D", "/x%5C..%5Ccharges", "/v1//../charges", "/?" + strings.Repeat("x", 8191)} {
			for _, method := range []string{"POST", "GET", "PURGE"} {
				r.want(w.send(method, target, "{}", "Idempotency-Key", "k"), 400, stethttp.InvalidTarget)
			}
		}
	}
	r.wantRuns(0)
	for i, w := range wires(t, r.handler) {
		for _, target := range []string{"/charges/../charges", "/charges;x=1", "/x%2Fcharges", "/charges/", "/?q=%0A%5C%2e%2e/%00"} {
			r.want(w.send("POST", target, "{}", "Idempotency-Key", fmt.Sprint("k", i, target[1:3], len(target))), 201, "")
		}
	}
	for _, e := range r.events {
		if e.Kind == stet.Answer && e.Status == 400 && e.Result != "limited" {
			t.Errorf("a refusal is counted as %s", e.Result)
		}
	}
}

// TestMethodsInAnotherCase: fetch leaves patch as it is, and who types curl -X post means POST.
func TestMethodsInAnotherCase(t *testing.T) { // C04
	r := newRig(t, stethttp.Config{EnabledMethods: []string{"POST", "PATCH"}}, created)
	for i, w := range wires(t, r.handler) {
		for _, method := range []string{"post", "Patch", "pATCH"} {
			res := w.send(method, "/charges", "{}")
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != 400 || !bytes.Contains(body, []byte(`"code":"invalid-method"`)) || !bytes.Contains(body, []byte("Send "+strings.ToUpper(method))) {
				t.Errorf("%s: %s: %d %s", w.name, method, res.StatusCode, body)
			}
		}
		r.wantRuns(int64(i))
		r.want(w.send("delete", "/charges", "{}"), 201, "") // no method that is guarded here
	}
}

// TestMethodOverrides: to the layer the method is the request's, and what may be taken for another
// one can be refused.
func TestMethodOverrides(t *testing.T) { // C04
	for _, refuse := range []bool{false, true} {
		r := newRig(t, stethttp.Config{RefuseOverride: refuse}, created)
		for _, w := range wires(t, r.handler) {
			for _, c := range []struct {
				target string
				fields []string
			}{
				{"/", []string{"X-Http-Method-Override", "POST"}}, {"/", []string{"X-HTTP-Method", "delete "}},
				{"/", []string{"x_method_override", "PATCH"}}, {"/?_method=post", nil},
			} {
				res := w.send("GET", c.target, "", c.fields...)
				if refuse {
					r.want(res, 400, stethttp.InvalidMethod)
				} else {
					r.want(res, 201, "")
				}
			}
			r.want(w.send("GET", "/?_method=HEAD", "", "X-HTTP-Method", "GET"), 201, "")
		}
	}
}

// TestWhitespaceMakesNoOtherScopeOrKey: net/http takes it away over HTTP/1 alone.
func TestWhitespaceMakesNoOtherScopeOrKey(t *testing.T) { // C02
	own := func(r *http.Request) (stet.Scope, error) { // one that does not trim whitespace
		if v := r.Header.Get("X-Tenant-Id"); v != "" {
			return stet.Scope(v), nil
		}
		return "", stethttp.ErrNoIdentity
	}
	for syntax, scope := range map[stet.Syntax]stethttp.ScopeFunc{stet.Lenient: stethttp.HeaderScope("X-Tenant-Id"), stet.Opaque: own} {
		for i := range 3 {
			r := newRig(t, stethttp.Config{}, created)
			guarded := stethttp.Middleware(r.engine, scope, stethttp.Config{Key: stet.KeyRule{Syntax: syntax}})(
				http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					r.runs.Add(1)
					if v := req.Header.Get("X-Tenant-Id"); v != "sec" {
						t.Errorf("the handler sees the scope %q", v)
					}
					created(w, req)
				}))
			w := wires(t, guarded)[i]
			for _, scope := range []string{" sec", "sec", "sec ", "\tsec \t"} {
				for _, key := range []string{"k", "k ", " k", "\tk"} {
					r.want(w.send("POST", "/", "{}", "X-Tenant-Id", scope, "Idempotency-Key", key), 201, "")
				}
			}
			r.wantRuns(1)
			r.want(w.send("POST", "/", "{}", "X-Tenant-Id", " ", "Idempotency-Key", "k"), 401, stethttp.Unauthenticated)
		}
	}
}

// TestScopesOfRequestsMadeByHand: nothing has looked at their values before.
func TestScopesOfRequestsMadeByHand(t *testing.T) { // C02
	for value, want := range map[string]string{"sec": "sec", " sec\t": "sec", "a b": "a b", "caf\u00e9": "caf\u00e9", "": "", " \t": "",
		"a\tb": "", "a\nb": "", "a\x00": "", "\x7f": "", "\r\nsec": ""} {
		r := &http.Request{Header: http.Header{"X-Tenant-Id": {value}}}
		if got, err := stethttp.HeaderScope("x-tenant-id")(r); string(got) != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", value, got, err)
		}
		plain, err := stethttp.APIKeyScope("X-Tenant-Id")(&http.Request{Header: http.Header{"X-Tenant-Id": {want}}})
		if got, err2 := stethttp.APIKeyScope("X-Tenant-Id")(r); got != plain || (err == nil) != (err2 == nil) {
			t.Errorf("%q is another API key than %q", value, want)
		}
	}
}

// TestATokenIsNoScope: the next token would be another caller. What has dots and is no token is a
// scope as before.
func TestATokenIsNoScope(t *testing.T) { // N01
	part := base64.RawURLEncoding.EncodeToString
	signed := part([]byte(`{"typ":"JWT", "alg":"ES256"}`)) + "." + part([]byte(`{"sub":"u-1","exp":1}`)) + ".c2ln"
	encrypted := part([]byte("{\n  \"alg\": \"dir\", \"enc\": \"A256GCM\"}")) + "..aXY.Y2lwaGVy.dGFn"
	for value, token := range map[string]bool{
		signed: true, encrypted: true, "Bearer " + signed: true, "JWT  " + signed: true,
		"a.b.c": false, "com.example.pay": false, "a.b.c d": false, "Bearer sk_live_1": false, "..": false, "....": false, ". ": false,
		part([]byte(`{"n":1}`)) + ".b.c":        false,
		part([]byte(`"alg"`)) + ".b.c":          false,
		part([]byte(`{"alg":"ES256"}`)) + ".b":  false,
		part([]byte(`{"alg":""}`)) + ".b.c":     false,
		part([]byte(`{"alg":"ES256"`)) + ".b.c": false,
	} {
		for name, scope := range map[string]stethttp.ScopeFunc{"Header": stethttp.HeaderScope("X-Caller"), "ApiKey": stethttp.APIKeyScope("X-Caller")} {
			var runs atomic.Int64
			url := serve(t, stethttp.Middleware(newEngine(), scope, stethttp.Config{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs.Add(1)
				created(w, r)
			})))
			a := ask(t, url, "{}", key1, "X-Caller: "+value)
			if !token {
				a.want(t, 201, "")
				continue
			}
			a.want(t, 401, stethttp.Unauthenticated).has(t, "WWW-Authenticate: "+name+` realm="idempotency keys", name="X-Caller"`)
			if d := a.problem.Detail; !strings.Contains(d, "X-Caller has a token, and the next token will be another") || runs.Load() != 0 {
				t.Errorf("%q ran %d times, and the answer says %q", value, runs.Load(), d)
			}
		}
	}
}

// TestCredentialsAreNoScope: scopes are stored, listed and logged.
func TestCredentialsAreNoScope(t *testing.T) { // N01
	for name, refused := range map[string]bool{"authorization": true, "Cookie": true, "X_Api_Key": true, "X-Tenant-Id": false} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); strings.Contains(said, name+" holds a credential") != refused {
					t.Errorf("%s: %s", name, said)
				}
			}()
			stethttp.HeaderScope(name)
		}()
	}
}

// TestUpgradesOfOtherMethodsAreGuarded, in every mode that enforces anything.
func TestUpgradesOfOtherMethodsAreGuarded(t *testing.T) { // C01
	for _, mode := range []stethttp.Mode{stethttp.ModeByMethod, stethttp.ModeOptional, stethttp.ModeRequired} {
		r := newRig(t, stethttp.Config{Mode: mode}, created)
		w := wires(t, r.handler)[0] // HTTP/2 has no such field
		for _, method := range []string{"POST", "DELETE"} {
			before := r.runs.Load()
			for range 3 {
				r.want(w.send(method, "/", "{}", "Idempotency-Key", method, "Connection", "Upgrade", "Upgrade", "websocket"), 201, "")
			}
			r.wantRuns(before + 1)
		}
		if mode != stethttp.ModeOptional {
			r.want(w.send("POST", "/", "{}", "Connection", "Upgrade", "Upgrade", "websocket"), 400, stethttp.MissingKey)
		}
	}
}

// TestBadFramesCloseTheConnection: the mark of what reads it, and what a client that sends the
// mark gets.
func TestBadFramesCloseTheConnection(t *testing.T) { // C05
	r := newRig(t, stethttp.Config{}, created)
	for _, w := range wires(t, r.handler) {
		res := w.send("GET", "/", "", "Stet-Bad-Frame", "3")
		r.want(res, 400, stethttp.BadFraming)
		if res.Close != (w.major == 1) {
			t.Errorf("%s: closes: %v", w.name, res.Close)
		}
	}
	r.wantRuns(0)
}

// TestNothingIsRefusedWhereNothingIsEnforced.
func TestNothingIsRefusedWhereNothingIsEnforced(t *testing.T) { // C15
	for _, mode := range []stethttp.Mode{stethttp.ModeOff, stethttp.ModeShadow} {
		r := newRig(t, stethttp.Config{Mode: mode, RefuseOverride: true}, created)
		n := int64(0)
		for _, w := range wires(t, r.handler) {
			for _, line := range []string{"POST /%2e%2e/x", "post /", "GET /a#b", "GET /?_method=POST", "DELETE /" + strings.Repeat("x", 9000)} {
				method, target, _ := strings.Cut(line, " ")
				r.want(w.send(method, target, "{}", "Idempotency-Key", "k", "Stet-Bad-Frame", "3"), 201, "")
				n++
			}
		}
		r.wantRuns(n)
	}
}

// TestUploadsOfACopiedRequestAreRemoved: the server removes the files of the request that it knows.
func TestUploadsOfACopiedRequestAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	part, err := m.CreateFormFile("file", "a.bin")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write(bytes.Repeat([]byte("x"), 10_000))
	m.Close()
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, req *http.Request) {
		if err := req.ParseMultipartForm(10); err != nil {
			t.Error(err)
		}
		if files, _ := os.ReadDir(os.TempDir()); len(files) == 0 {
			t.Error("the upload is in no file")
		}
		created(w, req)
	})
	w := wires(t, r.handler)[2]
	for _, method := range []string{"POST", "PURGE"} { // guarded, and not
		r.want(w.send(method, "/", form.String(), "Content-Type", m.FormDataContentType(), "Idempotency-Key", "k", "X-Padded", " x"), 201, "")
	}
	w.CloseIdleConnections()
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		files, err := os.ReadDir(os.TempDir())
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d files are left (%v)", len(files), err)
		}
		if len(files) == 0 {
			break
		}
	}
}
