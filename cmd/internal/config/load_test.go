package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes a file named stet.yaml in a directory of its own, and makes that the working
// directory.
func write(t *testing.T, text string) Options {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("stet.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Options{File: "stet.yaml"}
}

func load(t *testing.T, text string, over ...Override) *Config {
	t.Helper()
	o := write(t, text)
	o.Overrides = over
	c, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every complaint says where, what, and what to do.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":                     {"lisen: ':80'\n", "stet.yaml:1:1: lisen: there is no such key; did you mean listen?"},
		"unknown key below":               {"policy:\n  fail_mod: closed\n", "stet.yaml:2:3: policy.fail_mod: there is no such key; did you mean fail_mode?"},
		"key at the wrong place":          {"default_ttl_s: 60\n", "stet.yaml:1:1: default_ttl_s: there is no such key; it belongs at policy.default_ttl_s"},
		"policy key in a route":           {"routes:\n- match: /x\n  on_panic: replay\n", "stet.yaml:3:3: routes[0].on_panic: there is no such key; in a route, the keys of policy go under policy:"},
		"far from everything":             {"colour: red\n", "stet.yaml:1:1: colour: there is no such key; stet config init prints all keys"},
		"duplicate":                       {"listen: ':80'\nh2c: true\nlisten: ':81'\n", "stet.yaml:3:1: listen: the key is given twice; the first is in line 1"},
		"second document":                 {"listen: ':80'\n---\nlisten: ':81'\n", "stet.yaml:2:1: a second document begins here; a configuration is one"},
		"second, empty document":          {"listen: ':80'\n---\n", "stet.yaml:2:1: a second document begins here; a configuration is one"},
		"not YAML":                        {"listen: [\n", "stet.yaml:1:1: not YAML: did not find expected node content"},
		"not a mapping":                   {"- listen\n", "stet.yaml:1:1: want keys and values, not a list"},
		"wrong type: number":              {"listen: 8080\n", "stet.yaml:1:9: listen: want text, not the number 8080; put it in quotes"},
		"wrong type: text":                {"replicas: two\n", `stet.yaml:1:11: replicas: "two" is not a whole number, such as 100`},
		"wrong type: quoted":              {"replicas: '2'\n", "stet.yaml:1:11: replicas: want a whole number; take the quotes away"},
		"wrong type: list":                {"policy: { enabled_methods: POST }\n", `stet.yaml:1:28: policy.enabled_methods: want a list such as [a, b], not the text POST`},
		"wrong type: map":                 {"admin: 127.0.0.1:1\n", `stet.yaml:1:8: admin: want keys and values, not the text "127.0.0.1:1"`},
		"wrong type: yes":                 {"h2c: yes\n", `stet.yaml:1:6: h2c: want true or false, not the text "yes"`},
		"wrong type: sequence":            {"listen: [a]\n", "stet.yaml:1:9: listen: want text, not a list"},
		"wrong type: tag":                 {"listen: !!binary aGk=\n", "stet.yaml:1:9: listen: want text, not a !!binary"},
		"wrong type: in a list":           {"policy: { no_store_status: [401, no] }\n", `stet.yaml:1:34: policy.no_store_status[1]: "no" is not a whole number, such as 100`},
		"nothing":                         {"listen:\nh2c: true\n", "stet.yaml:1:1: listen: has no value; want text"},
		"a duration":                      {"policy: { default_ttl_s: 24h }\n", `stet.yaml:1:26: policy.default_ttl_s: "24h" is not a number of seconds; write 86400`},
		"a quoted duration":               {"policy: { lease_s: '1m30s' }\n", `stet.yaml:1:20: policy.lease_s: "1m30s" is not a number of seconds; write 90`},
		"octal":                           {"policy: { lease_s: 010 }\n", `stet.yaml:1:20: policy.lease_s: "010" is not a number of seconds, such as 30 or 0.5`},
		"hexadecimal":                     {"replicas: 0x10\n", `stet.yaml:1:11: replicas: "0x10" is not a whole number, such as 100`},
		"underscores":                     {"replicas: 1_0\n", `stet.yaml:1:11: replicas: "1_0" is not a whole number, such as 100`},
		"sexagesimal":                     {"policy: { lease_s: 1:30 }\n", `stet.yaml:1:20: policy.lease_s: "1:30" is not a number of seconds, such as 30 or 0.5`},
		"exponent":                        {"policy: { lease_s: 1e3 }\n", `stet.yaml:1:20: policy.lease_s: "1e3" is not a number of seconds, such as 30 or 0.5`},
		"infinity":                        {"policy: { lease_s: .inf }\n", `stet.yaml:1:20: policy.lease_s: ".inf" is not a number of seconds, such as 30 or 0.5`},
		"negative":                        {"policy: { lease_s: -1 }\n", "stet.yaml:1:20: policy.lease_s: -1 is too little: at least 0.01"},
		"beyond time":                     {"policy: { lease_s: 99999999999 }\n", "stet.yaml:1:20: policy.lease_s: 99999999999 is out of range: at most 9223372036 seconds"},
		"finer than time":                 {"policy: { lease_s: 1.0000000001 }\n", "stet.yaml:1:20: policy.lease_s: 1.0000000001 is finer than a nanosecond"},
		"not one of":                      {"policy: { on_5xx: relay }\n", `stet.yaml:1:19: policy.on_5xx: "relay" is not one of replay, release, unknown; did you mean replay?`},
		"unknown profile":                 {"policy:\n  profile: strip\n", `stet.yaml:2:12: policy.profile: "strip" is not one of default, ietf, stripe, stripe-v2, seed-strict, gateway-compat; did you mean stripe?`},
		"out of range":                    {"policy: { status: { mismatch: 200 } }\n", "stet.yaml:1:31: policy.status.mismatch: 200 is too little: at least 400"},
		"merge key":                       {"admin: &a { listen: '127.0.0.1:1' }\nstore:\n  <<: *a\n", "stet.yaml:3:3: store: << is not supported; an anchor on a whole value is"},
		"address":                         {"listen: localhost\n", `stet.yaml:1:9: listen: "localhost" is not HOST:PORT; :8080 is every address of this machine, port 0 a free one`},
		"port":                            {"listen: ':http'\n", `stet.yaml:1:9: listen: ":http" is not HOST:PORT; :8080 is every address of this machine, port 0 a free one`},
		"upstream":                        {"upstream: 127.0.0.1:3000\n", `stet.yaml:1:11: upstream: "127.0.0.1:3000" is not the URL of a server, such as http://127.0.0.1:3000, https://api.internal, or h2c://127.0.0.1:50051 for HTTP/2 without TLS`},
		"upstream's query":                {"upstream: http://a/?b=c\n", "stet.yaml:1:11: upstream: it has a scheme and a host, nothing more: requests are forwarded with their own paths and queries"},
		"a proxy's name":                  {"trusted_proxies: [10.0.0.0/8, lb.internal]\n", `stet.yaml:1:31: trusted_proxies[1]: "lb.internal" is no address and no range of them, such as 10.0.0.7 or 10.0.0.0/8`},
		"no room for a target":            {"limits: { max_target_bytes: 0 }\n", "stet.yaml:1:29: limits.max_target_bytes: 0 is too little: at least 1"},
		"overrides half way":              {"policy: { method_override: deny }\n", `stet.yaml:1:28: policy.method_override: "deny" is not one of ignore, refuse`},
		"admin from elsewhere":            {"admin:\n  listen: ':8081'\n", "stet.yaml:2:11: admin.listen: :8081 can be reached from elsewhere: that needs a token (admin.token_file), or listen on 127.0.0.1"},
		"no way in for operators":         {"admin: { listen: '' }\n", "stet.yaml:1:18: admin.listen: operators have no way in: give an address such as 127.0.0.1:8081, or admin.socket"},
		"TLS for a socket":                {"admin: { listen: '', socket: s, tls: { cert_file: c, key_file: k } }\n", "stet.yaml:1:38: admin.tls: it is for admin.listen, which is empty: a socket has no TLS"},
		"no bytes for a token":            {"admin: { min_token_bytes: 0 }\n", "stet.yaml:1:27: admin.min_token_bytes: 0 is too little: at least 1"},
		"two kinds of tokens":             {"admin: { token_file: a, tokens_file: b }\n", "stet.yaml:1:38: admin.tokens_file: give token_file or tokens_file, not both"},
		"replicas on one host":            {"replicas: 2\n", "stet.yaml:1:11: replicas: 2 gateways cannot share a sqlite store: its records live in one process, or on one host"},
		"replicas in memory":              {"replicas: 2\nstore: { dsn: 'memory:' }\n", "stet.yaml:1:11: replicas: 2 gateways cannot share a memory store: its records live in one process, or on one host"},
		"unknown store":                   {"store: { dsn: 'sqllite:x' }\n", `stet.yaml:1:15: store.dsn: there is no store "sqllite:"; did you mean sqlite?; there are memory:, file:DIR, sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE, mysql://USER:PASSWORD@HOST/DATABASE, redis://HOST, redis+cluster://HOST,HOST and redis+sentinel://HOST,HOST/NAME`},
		"store without a host":            {"store: { dsn: 'redis://u:secret@/0' }\n", "stet.yaml:1:15: store.dsn: redis: it needs a host, as in redis://127.0.0.1:6379"},
		"later setting":                   {"metrics: { scope_top_k: 5 }\n", "stet.yaml:1:25: metrics.scope_top_k: not in this build yet: metrics by scope"},
		"settling after all probes":       {"reconcile:\n  probe: { url: 'http://x/{key}', settle_s: 2700 }\n", "stet.yaml:2:45: reconcile.probe.settle_s: settle_s is 2700, and the last of max_probes: 8 comes 1270 s after the first: a missing one would never be proof; raise reconcile.max_probes, lower reconcile.probe.settle_s, or let it be 0, which says never"}, // A12
		"probes before settling":          {"reconcile:\n  max_probes: 5\n  probe: { url: 'http://x/{key}' }\n", "stet.yaml:2:15: reconcile.max_probes: settle_s is 300, and the last of max_probes: 5 comes 150 s after the first: a missing one would never be proof; raise reconcile.max_probes, lower reconcile.probe.settle_s, or let it be 0, which says never"},      // A12
		"a keeper without pause":          {"keeper: { sweep_interval_s: 0 }\n", "stet.yaml:1:29: keeper.sweep_interval_s: 0 is too little: at least 0.01"},
		"a keeper that never comes":       {"keeper: { reap_interval_s: never }\n", `stet.yaml:1:28: keeper.reap_interval_s: "never" is not a number of seconds, such as 30 or 0.5`},
		"a batch over the most":           {"keeper: { reap_batch: 10001 }\n", "stet.yaml:1:23: keeper.reap_batch: 10001 is too much: at most 10000"},
		"no keeper's key":                 {"keeper: { sweep_interval: 5 }\n", "stet.yaml:1:11: keeper.sweep_interval: there is no such key; did you mean sweep_interval_s?"},
		"probe of no request":             {"reconcile:\n  probe: { url: 'http://x/' }\n", "stet.yaml:2:17: reconcile.probe.url: the probe's URL names no request: it needs {key} or {downstream_key}"},
		"probe of something":              {"reconcile:\n  probe: { url: 'http://x/{id}' }\n", "stet.yaml:2:17: reconcile.probe.url: the probe's URL has {id}: it may have {key}, {scope}, {path}, {downstream_key}, {fence} and {life_key}"},
		"webhook without secret":          {"reconcile:\n  webhook: { listen: ':9' }\n", "stet.yaml:2:22: reconcile.webhook.listen: a webhook needs a secret: give reconcile.webhook.secret_file"},
		"later scope":                     {"scope:\n  jwt: { jwks_url: 'http://x' }\n", "stet.yaml:2:8: scope.jwt: not in this build yet: scopes from JWTs"},
		"two scopes":                      {"scope: { header: X-T, api_key: { header: X-K } }\n", "stet.yaml:1:18: scope.header: a request has one scope: give one of api_key, header"},
		"scope without a header":          {"scope: { api_key: {} }\n", "stet.yaml:1:19: scope.api_key: header is missing"},
		"an empty scope":                  {"scope: { header: '' }\n", "stet.yaml:1:18: scope.header: cannot be empty"},
		"scope's header":                  {"scope: { header: 'X T' }\n", `stet.yaml:1:18: scope.header: "X T" is not the name of a header`},
		"certificates unchecked":          {"scope: { client_cert: true }\n", "stet.yaml:1:23: scope.client_cert: it needs tls.client_ca_file; without it, client certificates are not verified"},
		"half a certificate":              {"tls: { cert_file: a }\n", "stet.yaml:1:6: tls: key_file is missing"},
		"cors: a path":                    {"cors: { allow_origins: ['https://shop.example/'] }\n", "stet.yaml:1:24: cors.allow_origins: \"https://shop.example/\" is not an origin: it ends with the host, or its port; an origin is spelled as in https://shop.example or http://localhost:5173"},
		"cors: all and one":               {"cors:\n  allow_origins: ['*', 'https://shop.example']\n", "stet.yaml:2:18: cors.allow_origins: \"*\" allows every origin: list it alone"},
		"h2c with tls":                    {"tls: { cert_file: a, key_file: b }\nh2c: true\n", "stet.yaml:2:6: h2c: h2c is HTTP/2 without TLS; with tls, HTTP/2 is there anyway"},
		"strict on disk":                  {"policy: { profile: seed-strict }\n", "stet.yaml:1:20: policy.profile: seed-strict keeps nothing unencrypted: sqlite: needs store.encryption_keys_file, or use memory:"},
		"a strict route on disk":          {"routes:\n- match: /x\n  policy: { profile: seed-strict }\n", "stet.yaml:3:22: routes[0].policy.profile: seed-strict keeps nothing unencrypted: sqlite: needs store.encryption_keys_file, or use memory:"},
		"202 for Stripe's clients":        {"policy: { profile: stripe, wait_policy: accepted }\n", "stet.yaml:1:41: policy.wait_policy: accepted answers 202, and the clients of profile stripe take an answer below 400 for the result: wait or no-wait"}, // C17
		"TTLs the wrong way round":        {"policy: { min_ttl_s: 60, max_ttl_s: 5 }\n", "stet.yaml:1:37: policy.max_ttl_s: min_ttl_s is 60 and max_ttl_s is 5: no hint could be granted"},
		"a TTL above the default":         {"policy: { min_ttl_s: 2592001 }\n", "stet.yaml:1:22: policy.min_ttl_s: min_ttl_s is 2592001 and max_ttl_s is 2592000: no hint could be granted"},
		"lengths":                         {"policy: { key: { min_len: 300 } }\n", "stet.yaml:1:27: policy.key.min_len: key.min_len is 300 and key.max_len is 255: no key could be accepted"},
		"pattern":                         {"policy: { key: { pattern: '(' } }\n", "stet.yaml:1:27: policy.key.pattern: key pattern: error parsing regexp: missing closing ): `^(?:()$`"},
		"fields without any":              {"policy: { fingerprint: { body: fields } }\n", "stet.yaml:1:24: policy.fingerprint: Fields: body mode fields needs at least one JSON pointer"},
		"a lower-case method":             {"policy: { enabled_methods: [post] }\n", `stet.yaml:1:28: policy.enabled_methods: "post" is not a method; methods are upper case, such as POST`},
		"required and passed":             {"policy: { enabled_methods: [POST], required_methods: [PUT] }\n", "stet.yaml:1:54: policy.required_methods: PUT is not in enabled_methods, so it always passes: enable it or do not require it"},
		"a route without a match":         {"routes:\n- mode: off\n", "stet.yaml:2:3: routes[0]: match is missing"},
		"a route's pattern":               {"routes:\n- match: 'POST x'\n", `stet.yaml:2:10: routes[0].match: "POST x" is not a pattern: a path begins with a slash, as in POST /x`},
		"equal routes":                    {"routes:\n- match: POST /x/{a}\n- match: /y\n- match: POST /x/{b}\n", `stet.yaml:4:10: routes[2].match: "POST /x/{b}" and "POST /x/{a}" (line 2) match the same requests, and neither is more specific`},
		"overlapping routes":              {"routes:\n- match: /{a}/b\n- match: /a/{b}\n", `stet.yaml:3:10: routes[1].match: "/a/{b}" and "/{a}/b" (line 2) match the same requests, and neither is more specific`},
		"a route's own error":             {"routes:\n- match: /x\n  policy: { min_ttl_s: 9, max_ttl_s: 8 }\n", "stet.yaml:3:38: routes[0].policy.max_ttl_s: min_ttl_s is 9 and max_ttl_s is 8: no hint could be granted"},
		"the file's error, once":          {"policy: { min_ttl_s: 9, max_ttl_s: 8 }\nroutes:\n- match: /x\n", "stet.yaml:1:36: policy.max_ttl_s: min_ttl_s is 9 and max_ttl_s is 8: no hint could be granted"},
		"H16 the upstream is the gateway": {"upstream: http://127.0.0.1:8080\n", "stet.yaml:1:11: upstream: it is the address at which this gateway listens (listen), so that requests would go round in circles: give the API's own"},
		"H16 ... by name":                 {"upstream: http://localhost:81\nlisten: 127.0.0.1:81\n", "stet.yaml:1:11: upstream: it is the address at which this gateway listens (listen), so that requests would go round in circles: give the API's own"},
		"H16 keys in Connection":          {"policy: { key: { header: Connection } }\n", "stet.yaml:1:26: policy.key.header: \"Connection\" says something of the message itself; use a header of its own, such as Idempotency-Key"},
		"H16 keys in content_length":      {"policy: { key: { header: content_length } }\n", "stet.yaml:1:26: policy.key.header: \"content_length\" says something of the message itself; use a header of its own, such as Idempotency-Key"},
		"H16 keys in Host":                {"policy: { key: { header: Host } }\n", "stet.yaml:1:26: policy.key.header: \"Host\" says something of the message itself; use a header of its own, such as Idempotency-Key"},
		"H16 keys in Authorization":       {"policy: { key: { header: Authorization } }\n", "stet.yaml:1:26: policy.key.header: \"Authorization\" holds a credential, and keys are stored, listed and sent on; use a header of its own, such as Idempotency-Key"},
		"H16 keys in cookie":              {"policy: { key: { header: cookie } }\n", "stet.yaml:1:26: policy.key.header: \"cookie\" holds a credential, and keys are stored, listed and sent on; use a header of its own, such as Idempotency-Key"},
		"H16 keys in Stet-Attempt":        {"policy: { key: { header: Stet-Attempt } }\n", "stet.yaml:1:26: policy.key.header: \"Stet-Attempt\" is said by the gateway alone; use a header of its own, such as Idempotency-Key"},
		"H16 keys in stet.attempt":        {"policy: { key: { header: stet.attempt } }\n", "stet.yaml:1:26: policy.key.header: \"stet.attempt\" is said by the gateway alone; use a header of its own, such as Idempotency-Key"},
		"H16 scopes in Connection":        {"scope: { header: Connection }\n", "stet.yaml:1:18: scope.header: \"Connection\" says something of the message itself; use a header of its own, such as X-Tenant-Id"},
		"H16 scopes in Host":              {"scope: { header: Host }\n", "stet.yaml:1:18: scope.header: \"Host\" says something of the message itself; use a header of its own, such as X-Tenant-Id"},
		"H16 scopes in Stet_Fence":        {"scope: { header: Stet_Fence }\n", "stet.yaml:1:18: scope.header: \"Stet_Fence\" is said by the gateway alone; use a header of its own, such as X-Tenant-Id"},
		"H16 scopes in the key":           {"scope: { header: idempotency_key }\n", "stet.yaml:1:18: scope.header: it holds the key, which a caller makes up: it cannot say whose the key is; use another header, such as X-Tenant-Id"},
		"N01 scopes in Authorization": {"scope: { header: authorization }\n", "stet.yaml:1:18: scope.header: scopes are stored, listed and logged as they are, " +
			"and authorization holds a credential: take the scope from what stays the same, such as a header X-Tenant-Id that your proxy sets; or, only if callers " +
			"keep their API keys for good, write scope: { api_key: { header: authorization } }, which keeps a hash: a retry with a renewed credential runs again"},
		"N01 API keys in Cookie": {"scope: { api_key: { header: Cookie } }\n", "stet.yaml:1:29: scope.api_key.header: cookies change from one answer to the next, " +
			"and a retry with another one would run again; take the scope from what stays the same, such as a header X-Tenant-Id that your proxy sets"},
		"H16 API keys in Host":   {"scope: { api_key: { header: Host } }\n", "stet.yaml:1:29: scope.api_key.header: \"Host\" says something of the message itself; use a header of its own, such as X-Tenant-Id"},
		"H16 no room for a body": {"limits: { max_buffered_bytes: 1000 }\n", "stet.yaml:1:31: limits.max_buffered_bytes: 1000 is too little: at least 16384"},
		"two errors, in order":   {"h2c: maybe\nlisen: x\n", "stet.yaml:1:6: h2c: want true or false, not the text maybe\nstet.yaml:2:1: lisen: there is no such key; did you mean listen?"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(write(t, c.text))
			if err == nil {
				t.Fatalf("accepted:\n%s", c.text)
			}
			if err.Error() != c.want {
				t.Errorf("for\n%s\ngot  %s\nwant %s", c.text, err, c.want)
			}
			if strings.Contains(err.Error(), ":secret@") {
				t.Error("the error holds a password")
			}
		})
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Load(Options{File: "none.yaml"})
	if want := "cannot read the configuration: there is no file none.yaml; stet config init > none.yaml makes one"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := os.WriteFile("big.yaml", make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Options{File: "big.yaml"}); err == nil || !strings.Contains(err.Error(), "is over 1048576 bytes") {
		t.Errorf("a file over the limit: %v", err)
	}
	if _, err := Load(Options{File: filepath.Dir(".")}); err == nil {
		t.Error("a directory is a configuration")
	}
}

// Aliases may not make a small file an endless configuration.
func TestAliasBombs(t *testing.T) {
	var b strings.Builder
	b.WriteString("routes:\n- &a { match: /x, policy: { no_store_status: &l [")
	b.WriteString(strings.Repeat("400,", 500) + "400] } }\n")
	b.WriteString(strings.Repeat("- *a\n", 1000))
	if _, err := Load(write(t, b.String())); err == nil || !strings.Contains(err.Error(), "the document is too large") {
		t.Errorf("a half-million-value document: %.200v", err)
	}
	for _, text := range []string{
		"policy: &p\n  status: *p\n",
		"a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
		"routes: &r\n- *r\n",
	} {
		if _, err := Load(write(t, text)); err == nil {
			t.Errorf("accepted:\n%s", text)
		}
	}
}

func TestAnAnchorIsSharedByRoutes(t *testing.T) {
	c := load(t, `
routes:
- match: POST /a
  policy: &slow { wait_policy: wait, wait_timeout_s: 0.5 }
- match: POST /b
  policy: *slow
`)
	for i := range c.Routes {
		if p := c.Routes[i].Policy; p.WaitPolicy != "wait" || p.WaitTimeout.String() != "0.5" {
			t.Errorf("route %d: %s, %s", i, p.WaitPolicy, p.WaitTimeout)
		}
	}
}

func TestAnEmptyFileIsTheDefaults(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "routes:\nadmin:\n"} {
		c := load(t, text)
		if c.Listen != ":8080" || c.Store.DSN != "sqlite:stet.db" || c.Policy.DefaultTTL.String() != "86400" || len(c.Routes) != 0 {
			t.Errorf("%q: %+v", text, c.File)
		}
	}
}
