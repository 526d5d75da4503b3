package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// hold writes a file that only its owner reads.
func hold(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// until waits for something that another goroutine brings about.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// get returns the status of an operator's request.
func (r *reloading) get(path, token string) int {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.admin+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return r.status(http.DefaultClient.Do(req))
}

// quiet fails where the log holds a secret.
func (r *reloading) quiet(secrets ...string) {
	r.t.Helper()
	for _, s := range secrets {
		if strings.Contains(r.log.text(), s) {
			r.t.Errorf("the log holds %s:\n%s", s, r.log.text())
		}
	}
}

// A token that was taken out is refused from then on, a new one is taken; a file that is not there
// changes nothing.
func TestReloadTokens(t *testing.T) { // D01
	t.Chdir(t.TempDir())
	const first, second, conf = "the-first-token-of-24-bytes", "the-second-token-of-24-bytes", "store: { dsn: 'memory:' }\nadmin: { token_file: token }\n"
	hold(t, "token", first)
	gate := newReloading(t, creating(t), conf)
	if got := gate.get("/api/v1/keys", first); got != 200 {
		t.Fatalf("the token: %d", got)
	}
	hold(t, "token", second)
	if said := gate.reload(conf); !slices.Equal(said.live, []string{"admin.token_file"}) || said.restart != nil {
		t.Errorf("the log says\n%s", said.text)
	}
	if old, now := gate.get("/api/v1/keys", first), gate.get("/api/v1/keys", second); old != 401 || now != 200 {
		t.Errorf("the revoked token %d, the new one %d", old, now)
	}
	if err := os.Remove("token"); err != nil {
		t.Fatal(err)
	}
	if said := gate.reload(conf + "policy: { lease_s: 61 }\n"); !strings.Contains(said.err, "admin.token_file") || said.live != nil {
		t.Errorf("without the file: %s", said.text)
	}
	if got := gate.get("/api/v1/keys", second); got != 200 {
		t.Errorf("after a reload that was refused: %d", got)
	}
	gate.quiet(first, second)
}

// A renewed certificate is shown to the next connection, and its client is checked against the
// authorities of then.
func TestReloadCertificates(t *testing.T) { // D01
	t.Chdir(t.TempDir())
	const conf = "store: { dsn: 'memory:' }\ntls: { cert_file: server.pem, key_file: server.key, client_ca_file: ca.pem }\nscope: { client_cert: true }\n"
	old := authority(t)
	old.issue(t, "server", x509.ExtKeyUsageServerAuth)
	one := old.issue(t, "client", x509.ExtKeyUsageClientAuth)
	gate := newReloading(t, creating(t), conf)
	send := func(ca *issuer, client tls.Certificate) error {
		roots := x509.NewCertPool()
		roots.AddCert(ca.cert)
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}}}}
		res, err := sendCharge(t, c, strings.Replace(gate.listen, "http:", "https:", 1))
		if err == nil && (res.StatusCode != 201 || res.ProtoMajor != 2) {
			err = fmt.Errorf("%s over %s", res.Status, res.Proto)
		}
		return err
	}
	if err := send(old, one); err != nil {
		t.Fatal(err)
	}
	renewed := authority(t)
	renewed.issue(t, "server", x509.ExtKeyUsageServerAuth)
	two := renewed.issue(t, "client", x509.ExtKeyUsageClientAuth)
	said := gate.reload(conf)
	if !slices.Equal(said.live, []string{"tls.cert_file", "tls.key_file", "tls.client_ca_file"}) || said.restart != nil {
		t.Errorf("the log says\n%s", said.text)
	}
	if err := send(renewed, two); err != nil {
		t.Errorf("the new certificate: %v", err)
	}
	if send(old, two) == nil {
		t.Error("the old certificate is still shown")
	}
	if send(renewed, one) == nil {
		t.Error("a client of the old authority is still served")
	}
	hold(t, "server.key", "no key")
	if said := gate.reload(conf); !strings.Contains(said.err, "tls.key_file: ") {
		t.Errorf("a key that is none: %s", said.text)
	}
	if err := send(renewed, two); err != nil {
		t.Errorf("after a reload that was refused: %v", err)
	}
}

// A notice is checked against the secrets of now, on either listener.
func TestReloadWebhookSecret(t *testing.T) { // D01
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own listener %t", own), func(t *testing.T) {
			t.Chdir(t.TempDir())
			conf := "store: { dsn: 'memory:' }\nreconcile: { webhook: { secret_file: secret } }\n"
			if own {
				conf = strings.Replace(conf, "secret }", "secret, listen: '127.0.0.1:0' }", 1)
			}
			first, second := []byte("0123456789abcdef01234567"), []byte("0123456789abcdef76543210")
			secret := func(key []byte) string { return "whsec_" + base64.StdEncoding.EncodeToString(key) }
			hold(t, "secret", secret(first))
			gate := newReloading(t, creating(t), conf)
			notice := func(key []byte) int {
				const body = `{"scope":"s","key":"none","outcome":"completed","fence":1,"status":201}`
				at := gate.admin
				if own {
					at = "http://" + gate.app.hook.on.Addr().String()
				}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/hooks/reconcile", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				stamp, mac := strconv.FormatInt(time.Now().Unix(), 10), hmac.New(sha256.New, key)
				fmt.Fprintf(mac, "msg.%s.%s", stamp, body)
				r.Header.Set("Webhook-Id", "msg")
				r.Header.Set("Webhook-Timestamp", stamp)
				r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
				return gate.status(http.DefaultClient.Do(r))
			}
			if got := notice(first); got != 404 { // there is no such record
				t.Fatalf("a notice: %d", got)
			}
			hold(t, "secret", secret(second))
			if said := gate.reload(conf); !slices.Equal(said.live, []string{"reconcile.webhook.secret_file"}) {
				t.Errorf("the log says\n%s", said.text)
			}
			if old, now := notice(first), notice(second); old != 401 || now != 404 {
				t.Errorf("signed with the old secret %d, with the new one %d", old, now)
			}
			gate.quiet(secret(first), secret(second))
		})
	}
}

// What the admin API and the webhook refuse is of the type that problem_base says now.
func TestReloadProblemBase(t *testing.T) { // X01, D01
	t.Chdir(t.TempDir())
	hold(t, "secret", "whsec_"+base64.StdEncoding.EncodeToString([]byte("0123456789abcdef01234567")))
	const conf = "store: { dsn: 'memory:' }\nreconcile: { webhook: { secret_file: secret } }\nproblem_base: "
	gate := newReloading(t, creating(t), conf+"https://one.example/\n")
	for _, base := range []string{"https://one.example/", "https://two.example/"} {
		gate.reload(conf + base + "\n")
		for method, path := range map[string]string{http.MethodGet: "/api/v1/keys/s/none", http.MethodPost: "/hooks/reconcile"} {
			req, err := http.NewRequestWithContext(t.Context(), method, gate.admin+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if !strings.HasPrefix(string(body), `{"type":"`+base) {
				t.Errorf("%s, %s: %d %s", path, base, res.StatusCode, body)
			}
		}
	}
}

// Reconciling is switched on, given other headers and off again; the headers' values are not shown.
func TestReloadReconcile(t *testing.T) { // D01, surface 6 (headers_file)
	t.Chdir(t.TempDir())
	var asked atomic.Int64
	var sent atomic.Value
	var found atomic.Bool
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			panic(http.ErrAbortHandler)
		case found.Load():
			fmt.Fprint(w, "charged")
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if r.Method == http.MethodGet {
			sent.Store(r.Header.Get("Authorization"))
			asked.Add(1)
		}
	}))
	defer upstream.Close()
	upstream.Config.ErrorLog = nil
	const conf = "store: { dsn: 'memory:' }\n"
	with := conf + "reconcile: { interval_s: 0.01, probe: { headers_file: headers, url: '" + upstream.URL + "/{key}?token=hunter2' } }\n"
	gate := newReloading(t, upstream.URL, conf)
	if got := gate.post("k1", "{}"); got != 502 {
		t.Fatalf("an upstream that breaks off: %d", got)
	}
	hold(t, "headers", "Authorization: Bearer hunter3\n\nX-Other: 1\n")
	if said := gate.reload(with); !slices.Contains(said.live, "reconcile.probe.url") || !slices.Contains(said.live, "reconcile.interval_s") || said.restart != nil {
		t.Errorf("the log says\n%s", said.text)
	}
	until(t, "a probe", func() bool { return asked.Load() == 1 })
	if got := sent.Load(); got != "Bearer hunter3" {
		t.Errorf("the probe was sent %q", got)
	}
	found.Store(true)
	hold(t, "headers", "Authorization: Bearer hunter4\n")
	if said := gate.reload(with); !slices.Equal(said.live, []string{"reconcile.probe.headers_file"}) {
		t.Errorf("the log says\n%s", said.text)
	}
	if got := gate.post("k2", "{}"); got != 502 {
		t.Fatalf("an upstream that breaks off: %d", got)
	}
	until(t, "a probe of the second", func() bool { return asked.Load() >= 2 })
	if got := sent.Load(); got != "Bearer hunter4" {
		t.Errorf("the probe was sent %q", got)
	}
	until(t, "the end of the doubt", func() bool { return gate.post("k2", "{}") == 200 })
	gate.reload(conf)
	n := asked.Load()
	if got := gate.post("k3", "{}"); got != 502 {
		t.Fatalf("an upstream that breaks off: %d", got)
	}
	gate.reload(strings.Replace(with, "interval_s: 0.01", "interval_s: 3600", 1)) // rests, since the last round was just now
	if got := asked.Load(); got > n+1 {
		t.Errorf("%d probes while reconciling was off", got-n)
	}
	hold(t, "headers", "Authorization Bearer hunter5\n")
	if said := gate.reload(with); !strings.HasSuffix(said.err, "reconcile.probe.headers_file: line 1 of headers is no header; write Name: value") {
		t.Errorf("a line that is no header: %s", said.text)
	}
	gate.quiet("hunter")
}

// A reload that is refused changes nothing of what jobs over many keys ask with: they would send
// the keys elsewhere.
func TestRefusedReloadAsksAsBefore(t *testing.T) { // D01
	t.Chdir(t.TempDir())
	provider := func() (url string, asked *atomic.Int64) {
		asked = new(atomic.Int64)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		t.Cleanup(s.Close)
		return s.URL, asked
	}
	first, asked := provider()
	second, never := provider()
	broken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer broken.Close()
	const key, keys = `"k1": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`, `{"primary": "k1", "keys": {%s}%s}`
	hold(t, "keys.json", fmt.Sprintf(keys, key, ""))
	conf := "store: { dsn: 'memory:', encryption_keys_file: keys.json }\nreconcile: { interval_s: 3600, probe: { url: '" + first + "/{key}' } }\n"
	gate := newReloading(t, broken.URL, conf)
	if got := gate.post("k1", "{}"); got != 502 {
		t.Fatalf("an upstream that breaks off: %d", got)
	}
	hold(t, "keys.json", fmt.Sprintf(keys, key, `, "names": "`+strings.Repeat("C", 42)+`A="`))
	if said := gate.reload(strings.Replace(conf, first, second, 1)); !strings.Contains(said.err, `"names" differs`) {
		t.Fatalf("names of another kind: %s", said.text)
	}
	before := asked.Load()
	res, err := http.Post(gate.admin+"/api/v1/bulk", "application/json", strings.NewReader(`{"action":"probe","filter":{"state":"unknown"},"expect":1,"reason":"ask again"}`))
	if err != nil || res.StatusCode != http.StatusAccepted {
		t.Fatal(res, err)
	}
	_ = res.Body.Close()
	until(t, "the job's probe", func() bool { return asked.Load()+never.Load() > before })
	if never.Load() > 0 {
		t.Error("a provider was asked whose configuration was refused")
	}
}

// What a scope has used up it has not got back by a reload, and what is held in memory still
// counts: the total is one.
func TestReloadKeepsLimits(t *testing.T) { // D01
	t.Chdir(t.TempDir())
	const conf = "store: { dsn: 'memory:' }\nlimits: { new_keys_per_second: 0.001, burst: 2, max_buffered_bytes: 1000000, share_per_scope: 1 }\n"
	gate := newReloading(t, creating(t), conf)
	for i, want := range []int{201, 201, 429} {
		if got := gate.post(fmt.Sprint("k", i), "{}"); got != want {
			t.Fatalf("key %d: %d, want %d", i, got, want)
		}
	}
	if said := gate.reload(conf + "policy: { lease_s: 61 }\n"); !slices.Equal(said.live, []string{"policy.lease_s"}) {
		t.Errorf("the log says\n%s", said.text)
	}
	if got := gate.post("k4", "{}"); got != 429 {
		t.Errorf("a scope without tokens has some after a reload: %d", got)
	}
	if got := gate.post("k0", "{}"); got != 201 {
		t.Errorf("a replay: %d", got)
	}

	free := strings.Replace(conf, "new_keys_per_second: 0.001", "new_keys_per_second: 0", 1)
	gate.reload(free)
	in, out := io.Pipe()
	go func() { // a body of 600 kB, of which the end does not come
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, gate.listen+"/x", io.MultiReader(strings.NewReader(strings.Repeat("x", 599_999)), in))
		req.ContentLength = 600_000
		req.Header.Set("Idempotency-Key", "stalled")
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	until(t, "the body", func() bool { return gate.app.limits.Buffered() > 590_000 })
	gate.reload(strings.Replace(free, "1000000", "1000001", 1))
	if n := gate.app.limits.Buffered(); n < 590_000 {
		t.Errorf("%d bytes are held after a reload", n)
	}
	if got := gate.post("large", strings.Repeat("x", 600_000)); got != 429 {
		t.Errorf("more than there may be was taken: %d", got)
	}
	_ = out.Close()
	until(t, "room", func() bool { return gate.post("large", strings.Repeat("x", 600_000)) == 201 })
}

// Who has shown so many wrong tokens that it has to wait has to after a reload as well. On a slow
// machine a wait ends in between: then one more is looked at, and not five.
func TestReloadKeepsWaits(t *testing.T) { // D01, D11
	t.Chdir(t.TempDir())
	const conf = "store: { dsn: 'memory:' }\nadmin: { token_file: token }\n"
	hold(t, "token", "the-first-token-of-24-bytes")
	gate := newReloading(t, creating(t), conf)
	guess := func() (looked, last int) {
		for ; looked < 20; looked++ {
			if last = gate.get("/api/v1/keys", "another-token-of-24-bytes"); last != 401 {
				break
			}
		}
		return looked, last
	}
	if looked, last := guess(); looked < 5 || last != 429 {
		t.Fatalf("%d are looked at, then %d", looked, last)
	}
	if said := gate.reload(conf + "policy: { lease_s: 61 }\n"); !slices.Equal(said.live, []string{"policy.lease_s"}) {
		t.Errorf("the log says\n%s", said.text)
	}
	if looked, last := guess(); looked >= 5 || last != 429 {
		t.Errorf("after a reload %d more are looked at, then %d", looked, last)
	}
}

// The time that what runs has at the end is that of the configuration in force, and so are the
// times of clients.
func TestReloadTimeouts(t *testing.T) { // D01
	t.Chdir(t.TempDir())
	gate := newReloading(t, creating(t), "store: { dsn: 'memory:' }\n")
	if got := timeouts(gate.app.conf).DrainTimeout; got != shortestDrain+10*time.Second {
		t.Fatalf("%s to drain", got)
	}
	said := gate.reload("store: { dsn: 'memory:' }\npolicy: { execution_timeout_s: 100 }\nread_timeout_s: 0.05\ndrain_delay_s: 0.2\n")
	if want := []string{"read_timeout_s", "drain_delay_s", "policy.execution_timeout_s"}; !slices.Equal(said.live, want) {
		t.Errorf("the log says\n%s", said.text)
	}
	if got := gate.app.server.Timeouts(); got.DrainTimeout != 110*time.Second || got.DrainDelay != 200*time.Millisecond {
		t.Errorf("the server drains for %s after %s", got.DrainTimeout, got.DrainDelay)
	}
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gate.listen+"/x", in)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 10
	req.Header.Set("Idempotency-Key", "k1")
	if got := gate.status(http.DefaultClient.Do(req)); got != 408 {
		t.Errorf("a body that does not come: %d", got)
	}
}

// Encryption keys are rotated: the new one seals, and opens without the old one.
func TestReloadEncryptionKeys(t *testing.T) { // D01
	t.Chdir(t.TempDir())
	const conf = "store: { dsn: 'memory:', encryption_keys_file: keys.json, pepper_file: pepper }\n"
	one, two := `"k1": "`+strings.Repeat("A", 43)+`="`, `"k2": "`+strings.Repeat("B", 42)+`A="`
	hold(t, "pepper", "a long secret")
	hold(t, "keys.json", `{"primary": "k1", "keys": {`+one+`}}`)
	gate := newReloading(t, creating(t), conf)
	gate.post("old", "{}")
	hold(t, "keys.json", `{"primary": "k2", "keys": {`+one+`, `+two+`}}`)
	hold(t, "pepper", "another secret")
	said := gate.reload(conf)
	if !slices.Equal(said.live, []string{"store.encryption_keys_file"}) || !slices.Equal(said.restart, []string{"store.pepper_file"}) {
		t.Errorf("the log says\n%s", said.text)
	}
	if first, replay := gate.post("new", "{}"), gate.post("old", "{}"); first != 201 || replay != 201 {
		t.Errorf("a new key %d, what the old one sealed %d", first, replay)
	}
	hold(t, "keys.json", `{"primary": "k2", "keys": {`+two+`}}`)
	gate.reload(conf)
	if sealed, gone := gate.post("new", "{}"), gate.post("old", "{}"); sealed != 201 || gone != 503 {
		t.Errorf("what the new key sealed %d, what the old one did %d", sealed, gone)
	}
	hold(t, "keys.json", `{"primary": "k2", "keys": {`+two+`}, "names": "`+strings.Repeat("C", 42)+`A="}`)
	if said := gate.reload(conf); !strings.Contains(said.err, `"names" differs`) {
		t.Errorf("names of another kind: %s", said.text)
	}
	gate.quiet("AAAAAA", "BBBBBB", "CCCCCC", "secret\"")
}

// The log's level changes with the next line, and what a reload says is there at every level.
func TestReloadLogLevel(t *testing.T) { // D01
	t.Chdir(t.TempDir())
	gate := newReloading(t, creating(t), "store: { dsn: 'memory:' }\nlog_level: error\n")
	gate.post("k1", "{}")
	if text := gate.log.text(); strings.Contains(text, "key ") {
		t.Errorf("at level error:\n%s", text)
	}
	if said := gate.reload("store: { dsn: 'memory:' }\nlog_level: debug\n"); !slices.Equal(said.live, []string{"log_level"}) {
		t.Errorf("the log says\n%s", said.text)
	}
	gate.post("k2", "{}")
	if text := gate.log.text(); !strings.Contains(text, `"level":"DEBUG","msg":"key running"`) {
		t.Errorf("at level debug:\n%s", text)
	}
	if said := gate.reload("store: { dsn: 'memory:' }\nlog_level: error\n"); !strings.Contains(said.text, "the new configuration is in force") {
		t.Errorf("the log says\n%s", said.text)
	}
}

// The signal itself does all that.
func TestSIGHUP(t *testing.T) { // D01
	t.Chdir(t.TempDir())
	const first, second = "the-first-token-of-24-bytes", "the-second-token-of-24-bytes"
	hold(t, "token", first)
	gate := serve(t, "--upstream", creating(t), configured(t, "store: { dsn: 'memory:' }\nadmin: { token_file: token }\nkeeper: { sweep_interval_s: 5 }\n"))
	hold(t, "token", second)
	configured(t, "store: { dsn: 'memory:' }\nadmin: { token_file: token }\nkeeper: { sweep_interval_s: 6 }\n")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "the reload", func() bool { return strings.Contains(gate.stderr.text(), "the new configuration is in force") })
	for _, name := range []string{"admin.token_file", "keeper.sweep_interval_s"} {
		if text := gate.stderr.text(); !strings.Contains(text, `"msg":"a setting changed","setting":"`+name+`"`) {
			t.Errorf("%s is not in the log:\n%s", name, text)
		}
	}
	asks := &reloading{t: t, admin: "http://" + gate.Admin}
	if old, now := asks.get("/api/v1/keys", first), asks.get("/api/v1/keys", second); old != 401 || now != 200 {
		t.Errorf("the revoked token %d, the new one %d", old, now)
	}
}
