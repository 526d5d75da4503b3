package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/stet-dev/stet/cmd/internal/config"
)

// reloading is a gateway in this process whose configuration a test changes.
type reloading struct {
	t             *testing.T
	app           *app
	log           *awaited
	listen, admin string // URLs
}

// newReloading runs a gateway by a configuration in the working directory until the test ends. With
// an upstream, its listeners are on free ports; without, the configuration says all.
func newReloading(t *testing.T, upstream, text string) *reloading {
	t.Helper()
	r := &reloading{t: t, log: &awaited{}}
	s := settings{Config: "stet.yaml", Upstream: upstream}
	if upstream != "" {
		s.Listen, s.Admin = "127.0.0.1:0", "127.0.0.1:0"
	}
	w := &world{given: map[string]bool{}}
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithCancel(context.Background())
	configured(t, text)
	conf, err := s.load(w)
	if err != nil {
		t.Fatal(err)
	}
	conf.Stamp()
	level, ready, ended := new(slog.LevelVar), make(chan struct{}), make(chan error, 1)
	out := &lines{Writer: r.log}
	r.app = &app{conf: conf, level: level, log: newLog(out, level), always: newLog(out, slog.LevelInfo),
		again: func() (*config.Config, error) { return s.load(w) },
		ready: func(listen, admin string) { r.listen, r.admin = "http://"+listen, "http://"+admin; close(ready) }}
	go func() { ended <- r.app.serve(w) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// reload does what SIGHUP does, and returns what the log says of it.
func (r *reloading) reload(text string) reloaded {
	r.t.Helper()
	configured(r.t, text)
	before := len(r.log.text())
	r.app.reloadOnce()
	said := reloaded{text: r.log.text()[before:]}
	for line := range strings.Lines(said.text) {
		var l struct{ Msg, Setting, Settings, Error string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			r.t.Fatalf("%s: %v", line, err)
		}
		switch {
		case l.Msg == "a setting changed": // a warning of the start may come late
			said.live = append(said.live, l.Setting)
		case l.Settings != "":
			said.restart = strings.Split(l.Settings, ", ")
		case l.Error != "":
			said.err = l.Error
		}
	}
	return said
}

// reloaded is what the log says of a reload.
type reloaded struct {
	text          string
	live, restart []string
	err           string
}

// post sends a keyed request and returns the status.
func (r *reloading) post(key, body string) int {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.listen+"/x", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", key)
	return r.status(http.DefaultClient.Do(req))
}

func (r *reloading) status(res *http.Response, err error) int {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// creating is an upstream that answers 201.
func creating(t *testing.T) string {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	t.Cleanup(upstream.Close)
	return upstream.URL
}

// other are values of settings whose tags do not say what they may be; the files are those of
// [files].
var other = map[string]any{
	"reconcile.probe.respond.status": 201,
	"listen":                         "127.0.0.1:1", "admin.listen": "127.0.0.1:1", "upstream": "http://127.0.0.1:1", "trusted_proxies": []string{"10.0.0.0/8"},
	"problem_base": "https://errors.example/", "cors.allow_origins": []string{"https://shop.example"}, "admin.hosts": []string{"stet.example"},
	"store.dsn": "memory:?max_keys=7", "store.listen_dsn": "postgres://u:p@h/d", "store.cache": "memory:",
	"tls.cert_file": "other.pem", "tls.key_file": "other.key", "tls.client_ca_file": "ca2.pem",
	"admin.tls.cert_file": "other.pem", "admin.tls.key_file": "other.key", "admin.tls.client_ca_file": "ca2.pem",
	"admin.tokens_file": "tokens.json", "store.encryption_keys_file": "keys.json", "reconcile.webhook.secret_file": "whsec",
	"reconcile.probe.headers_file": "headers", "store.dsn_file": "dsn",
	"console.trace_url": "https://traces.example/{trace_id}",
	"scope.header":      "X-Tenant", "scope.api_key.header": "X-Other-Key",
	"reconcile.probe.url": "http://127.0.0.1:1/{key}", "reconcile.probe.method": "HEAD", "reconcile.webhook.listen": "127.0.0.1:1",
	"routes[].match": "POST /y", "policy.enabled_methods": []string{"POST", "LINK"}, "policy.required_methods": []string{"PUT"},
	"policy.key.header": "X-Key", "policy.key.pattern": "[a-z]+", "policy.fingerprint.body": "jcs", "policy.fingerprint.fields": []string{"/b"},
	"policy.fingerprint.exclude": []string{"/a"}, "policy.fingerprint.exclude_fields": []string{"ts"}, "policy.fingerprint.headers": []string{"X-A"}, "policy.replay.drop_headers": []string{"X-A"},
}

// beside are settings without which another one cannot be set, or cannot be had: nil takes one
// away.
var beside = map[string]map[string]any{
	"store.dsn_file":                {"store.dsn": nil},
	"store.listen_dsn":              {"store.dsn": "postgres://u:p@h/d"},
	"store.encryption_accept_plain": {"store.encryption_keys_file": "keys.json"},
	"scope.api_key.header":          {"scope.api_key.header": "X-Api-Key"},
	"reconcile.webhook.listen":      {"reconcile.webhook.secret_file": "whsec"},
	"policy.fingerprint.fields":     {"policy.fingerprint.body": "fields", "policy.fingerprint.fields": []string{"/a"}},
	"policy.key.max_len":            {"policy.key.min_len": 3},
	"tls.cert_file":                 {"tls.key_file": "other.key"},
	"tls.key_file":                  {"tls.cert_file": "other.pem"},
	"admin.tls.cert_file":           {"admin.tls.key_file": "other.key"},
	"admin.tls.key_file":            {"admin.tls.cert_file": "other.pem"},
	"reconcile.webhook.secret_file": {}, // the one before has it, too
	"routes[].match_encoded":        {}, // the one before has another route
}

// files writes what settings can name.
func files(t *testing.T) {
	ca := authority(t)
	ca.issue(t, "server", 1)
	ca.issue(t, "other", 1)
	pem, err := os.ReadFile("ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"ca2.pem": string(pem), "changed": "a token of thirty bytes or so..", "dsn": "memory:?max_keys=8", "headers": "Authorization: Bearer hunter2\n",
		"keys.json":   `{"primary": "k1", "keys": {"k1": "` + strings.Repeat("A", 43) + `="}}`,
		"tokens.json": `{"sue": {"sha256": "76880d60191af3b3f803a656b7716f0179928357fc32421ced973ed265e15718", "role": "viewer"}}`,
		"whsec":       "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// settingsOf are all settings of a section, by path; those of routes have [] in it. Sections that
// may not be there are settings, too.
func settingsOf(t reflect.Type, prefix string) map[string]reflect.StructTag {
	all := map[string]reflect.StructTag{}
	for i := range t.NumField() {
		f := t.Field(i)
		path := strings.TrimPrefix(prefix+"."+f.Tag.Get("yaml"), ".")
		if _, later := f.Tag.Lookup("later"); later {
			continue
		}
		switch in := f.Type; {
		case in.Kind() == reflect.Struct:
			maps.Copy(all, settingsOf(in, path))
		case in.Kind() == reflect.Pointer:
			maps.Copy(all, settingsOf(in.Elem(), path))
		case in.Kind() == reflect.Slice && in.Elem().Kind() == reflect.Struct:
			maps.Copy(all, settingsOf(in.Elem(), path+"[]"))
		default:
			all[path] = f.Tag + reflect.StructTag(` kind:"`+in.Kind().String()+`"`)
		}
	}
	return all
}

// another is a value that a setting does not have without one.
func another(path string, tag reflect.StructTag) any {
	if v, ok := other[strings.TrimPrefix(path, "routes[].")]; ok {
		return v
	}
	if v, ok := other[path]; ok {
		return v
	}
	def := tag.Get("default")
	if words, ok := tag.Lookup("enum"); ok {
		all := strings.Split(words, "|")
		switch tag.Get("kind") {
		case "slice":
			return all[:1]
		case "map": // by numbers
			return map[int]string{502: all[0]}
		}
		return all[(slices.Index(all, def)+1)%len(all)]
	}
	switch tag.Get("kind") {
	case "bool":
		return def != "true"
	case "string":
		return "changed"
	}
	number := func(s string) (n float64) { _, _ = fmt.Sscan(s, &n); return n }
	n := number(def) + 1
	if most, ok := tag.Lookup("max"); ok && n > number(most) {
		n = number(tag.Get("min"))
	}
	switch {
	case tag.Get("kind") == "slice":
		return []int{int(n) + 10}
	case n == float64(int(n)):
		return int(n) // 2.592001e+06 is no number of a configuration
	}
	return n
}

// document is a configuration with a value at each path.
func document(t *testing.T, values map[string]any) string {
	root := map[string]any{}
	for path, v := range values {
		if v == nil {
			continue
		}
		in, keys := root, strings.Split(path, ".")
		for _, key := range keys[:len(keys)-1] {
			if name, list := strings.CutSuffix(key, "[]"); list {
				if in[name] == nil {
					in[name] = []any{map[string]any{}}
				}
				in = in[name].([]any)[0].(map[string]any)
				continue
			}
			if in[key] == nil {
				in[key] = map[string]any{}
			}
			in = in[key].(map[string]any)
		}
		in[keys[len(keys)-1]] = v
	}
	text, err := yaml.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// secured is a configuration with certificates in a section.
func secured(values map[string]any, section string) map[string]any {
	return with(with(with(values, section+".cert_file", "server.pem"), section+".key_file", "server.key"), section+".client_ca_file", "ca.pem")
}

// Every setting that there is is changed once, with a file that says so, while the gateway runs:
// either it is put in force, or it is named as taking a restart, as its tag says. A new setting is
// in this test without another line, unless its tags leave open what it may be.
func TestEverySettingIsAppliedOrNamed(t *testing.T) { // D01
	t.Chdir(t.TempDir())
	files(t)
	all := settingsOf(reflect.TypeFor[config.File](), "")
	if len(all) < 140 {
		t.Fatalf("only %d settings were found", len(all))
	}
	both := map[string]any{"upstream": creating(t), "listen": "127.0.0.1:0", "admin.listen": "127.0.0.1:0", "store.dsn": "memory:"}
	bases := map[bool]map[string]any{false: with(both, "routes[].match", "POST /x"),
		true: secured(secured(both, "tls"), "admin.tls")}
	gates := map[bool]*reloading{false: newReloading(t, "", document(t, bases[false])), true: newReloading(t, "", document(t, bases[true]))}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if rest, ok := strings.CutPrefix(path, "routes[].policy."); ok && rest != "wait_policy" { // the same type as the file's
			continue
		}
		secure := strings.Contains(path, "tls.") || path == "scope.client_cert"
		base := maps.Clone(bases[secure])
		maps.Copy(base, beside[path])
		gate := gates[secure]
		if beside[path] != nil { // otherwise it has its default since the start
			gate.reload(document(t, base))
		}
		said := gate.reload(document(t, with(base, path, another(path, all[path]))))
		name := strings.Replace(path, "routes[]", "routes[POST /x]", 1)
		if path == "routes[].match" {
			name = "routes[POST /y]"
		}
		if path == "replicas" { // a gateway on a store that cannot be shared
			if !strings.Contains(said.err, "2 gateways cannot share a memory store") {
				t.Errorf("%s: %s", path, said.text)
			}
			continue
		}
		live := all[path].Get("reload") == "live"
		if said.err != "" || live != slices.Contains(said.live, name) || live == slices.Contains(said.restart, name) {
			t.Errorf("%s, %s: the log says\n%s", path, all[path].Get("reload"), said.text)
		}
	}
}

// with is a copy of m with one value more.
func with(m map[string]any, key string, value any) map[string]any {
	c := maps.Clone(m)
	c[key] = value
	return c
}
