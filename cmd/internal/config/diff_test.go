package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// names are the changed settings, with ! where a restart is needed.
func names(changes []Change) string {
	var all []string
	for _, c := range changes {
		if c.Restart != "" {
			c.Path += "!"
		}
		all = append(all, c.Path)
	}
	return strings.Join(all, " ")
}

// Every change is named once, where it is: in a section, in one that was not there, in a route, and
// in a file.
func TestDiff(t *testing.T) { // D01
	for name, c := range map[string]struct{ was, is, want string }{
		"nothing":          {"replicas: 1\n", "limits: {}\n", ""},
		"a live one":       {"", "policy: { lease_s: 61 }\n", "policy.lease_s"},
		"one of the start": {"", "listen: ':81'\n", "listen!"},
		"a section":        {"", "scope: { api_key: { header: X-K } }\n", "scope.api_key"},
		"in it":            {"scope: { api_key: { header: X-K } }\n", "scope: { api_key: { header: X-L } }\n", "scope.api_key.header"},
		"TLS or none":      {"", "tls: { cert_file: a, key_file: b }\n", "tls!"},
		"an empty list":    {"policy: { required_methods: [] }\n", "policy: { required_methods: [] }\n", ""},
		"a profile": {"", "policy: { profile: seed-strict }\nstore: { dsn: 'memory:' }\n", "store.dsn! policy.profile policy.required_methods policy.on_lease_expiry policy.no_store_status policy.status.mismatch " +
			"policy.status.invalid_key policy.key.syntax policy.key.max_len policy.fingerprint.headers policy.replay.markers"},
		"a route, added":    {"", "routes: [{ match: /x }]\n", "routes[/x]"},
		"a route, gone":     {"routes: [{ match: /x }, { match: /y }]\n", "routes: [{ match: /y }]\n", "routes[/x]"},
		"routes, reordered": {"routes: [{ match: /x }, { match: /y }]\n", "routes: [{ match: /y }, { match: /x }]\n", ""},
		"a route's own": {"policy: { lease_s: 61 }\nroutes: [{ match: /x, mode: off }]\n",
			"policy: { lease_s: 61 }\nroutes: [{ match: /x, policy: { key: { min_len: 3 } } }]\n", "routes[/x].mode routes[/x].policy.key.min_len"},
		"a route has the file's": {"routes: [{ match: /x }]\n", "policy: { lease_s: 61 }\nroutes: [{ match: /x }]\n", "policy.lease_s"},
		"a route keeps its own": {"routes: [{ match: /x, policy: { lease_s: 60 } }]\n", "policy: { lease_s: 61 }\nroutes: [{ match: /x, policy: { lease_s: 60 } }]\n",
			"policy.lease_s"},
		"two passwords": {"store: { dsn: 'postgres://u:a@h/d' }\n", "store: { dsn: 'postgres://u:b@h/d' }\n", "store.dsn!"},
	} {
		if got := names(Diff(load(t, c.was), load(t, c.is))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The contents of files are settings.
func TestDiffOfFiles(t *testing.T) { // D01
	t.Chdir(t.TempDir())
	stamped := func(contents, text string) *Config {
		for _, name := range []string{"a", "b"} {
			if err := os.WriteFile(name, []byte(contents), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile("stet.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(Options{File: "stet.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		c.Stamp()
		return c
	}
	const text = "admin: { token_file: a }\nstore: { pepper_file: b, encryption_keys_file: a }\ntls: { cert_file: a, key_file: b }\n" +
		"reconcile: { probe: { headers_file: a, url: 'http://x/{key}' } }\n"
	was, is := stamped("hunter2", text), stamped("hunter3", text)
	changes := Diff(was, is)
	if got, want := names(changes), "tls.cert_file tls.key_file admin.token_file store.pepper_file! store.encryption_keys_file reconcile.probe.headers_file"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, c := range changes {
		if c.Is != changed || strings.Contains(fmt.Sprint(c), "hunter") {
			t.Errorf("%+v", c)
		}
	}
	if got := names(Diff(is, stamped("hunter3", text))); got != "" {
		t.Errorf("the same contents: %s", got)
	}
}

// A reload leaves what takes a restart as it was, and puts the rest in force; what does not fit
// together then is refused.
func TestHold(t *testing.T) { // D01
	started := load(t, "listen: ':81'\nstore: { dsn: 'memory:' }\nh2c: true\n")
	next := load(t, "listen: ':82'\nstore: { dsn: 'sqlite:x', timeout_s: 9 }\ntls: { cert_file: a, key_file: b }\npolicy: { lease_s: 61 }\n")
	if err := next.Hold(started); err != nil {
		t.Fatal(err)
	}
	if got := names(Diff(started, next)); got != "policy.lease_s" {
		t.Errorf("what a reload puts in force: %s", got)
	}
	next = load(t, "tls: { cert_file: a, key_file: b, client_ca_file: c }\nscope: { client_cert: true }\n")
	if err := next.Hold(load(t, "")); err == nil || !strings.Contains(err.Error(), "scope.client_cert: it needs tls.client_ca_file") {
		t.Errorf("certificates without TLS: %v", err)
	}
}

// D11: what is printed holds no password and no token.
func TestSecretsAreHidden(t *testing.T) {
	c := load(t, `
store: { dsn: "postgres://stet:hunter2@db/stet?sslmode=disable", listen_dsn: "postgres://stet:hunter2@direct/stet", cache: "redis://:hunter2@cache/1" }
reconcile: { probe: { url: "https://hunter2:x@psp.example/v1/{path}/find?token=hunter2&hunter2&key={key}&q=hunter2{scope}&empty=" } }
`)
	text := c.show(t)
	if strings.Contains(text, "hunter2") {
		t.Errorf("show prints a secret:\n%s", text)
	}
	for _, want := range []string{
		`dsn: "postgres://stet:xxxxx@db/stet?sslmode=disable"`, `listen_dsn: "postgres://stet:xxxxx@direct/stet"`, `cache: "redis://:xxxxx@cache/1"`,
		`url: "https://xxxxx@psp.example/v1/{path}/find?token=xxxxx&xxxxx&key={key}&q=xxxxx{scope}&empty="`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("show lacks %s:\n%s", want, text)
		}
	}
	other := load(t, strings.ReplaceAll(strings.Replace(c.File.Store.DSN, "hunter2", "hunter3", 1), "postgres", "store: { dsn: 'postgres")+"' }\n")
	for _, d := range Diff(c, other) {
		if strings.Contains(fmt.Sprint(d), "hunter") {
			t.Errorf("%+v", d)
		}
		if d.Path == "store.dsn" && d.Is != changed {
			t.Errorf("another password: %+v", d)
		}
	}
}

// D11: nor does an error.
func TestErrorsHideSecrets(t *testing.T) {
	for _, text := range []string{
		"store: postgres://u:hunter2@h/d\n", "listen: postgres://u:hunter2@h/d\n", "admin: { listen: 'postgres://u:hunter2@h/d' }\n",
		"upstream: http://u:hunter2@h/\n", "store: { dsn: 'postgres://u:hunter2@/' }\n", "store: { dsn: 'mysql://u:hunter2@h/d?x=1' }\n",
		"store: { listen_dsn: 'postgres://u:hunter2@h/d' }\n", "store: { cache: 'redis://u:hunter2@/' }\n", "store: { cache: 'mysql://u:hunter2@h/d' }\n",
		"reconcile: { probe: { url: 'https://h/?token=hunter2' } }\n", "reconcile: { probe: { url: 'ftp://u:hunter2@h/{key}' } }\n",
		"reconcile: { probe: { url: 'https://u:hunter2@h:x/{key}' } }\n",
	} {
		_, err := Load(write(t, text))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s%v", text, err)
		}
	}
}

// The DSN may be in a file: in that or in the configuration, and a flag beats both.
func TestDSNFile(t *testing.T) { // surface 6
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte("postgres://u:hunter2@h/d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	given := "store: { dsn_file: " + file + " }\n"
	c := load(t, given)
	if c.Store.DSN != "postgres://u:hunter2@h/d" {
		t.Errorf("the DSN is %q", c.Store.DSN)
	}
	if text := c.show(t); strings.Contains(text, "hunter2") || strings.Contains(text, " dsn:") || !strings.Contains(text, "/dsn\"\n") {
		t.Errorf("show prints\n%s", text)
	}
	o := write(t, given)
	o.Overrides = []Override{{Path: "store.dsn", Value: "memory:", Origin: Origin{Kind: FromFlag, Name: "--store"}}}
	if c, err := Load(o); err != nil || c.Store.DSN != "memory:" || c.Store.DSNFile != "" {
		t.Errorf("a flag: %+v, %v", c, err)
	}
	for text, want := range map[string]string{
		"store: { dsn_file: dsn, dsn: 'memory:' }\n": "stet.yaml:1:20: store.dsn_file: give dsn or dsn_file, not both",
		"store: { dsn_file: none }\n":                "stet.yaml:1:20: store.dsn_file: open none: no such file or directory",
	} {
		if _, err := Load(write(t, text)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s%v, want %s", text, err, want)
		}
	}
	if err := os.WriteFile(file, []byte("postgres://u:hunter2@/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(write(t, given)); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a DSN without a host: %v", err)
	}
}

// docs/operate.md lists what takes a restart, and why, as the tags say.
func TestRestartsAreInTheDocs(t *testing.T) { // D01
	doc, err := os.ReadFile("../../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	want := restarts(reflect.TypeFor[File](), "")
	_, table, _ := strings.Cut(string(doc), "| takes a restart | because |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if got := strings.Split(table, "\n"); !slices.Equal(got, want) {
		t.Errorf("the table is\n%s\nthe tags say\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// restarts are the rows of the table.
func restarts(t reflect.Type, prefix string) (rows []string) {
	for f := range t.Fields() {
		path := join(prefix, f.Tag.Get("yaml"))
		if _, later := f.Tag.Lookup("later"); later {
			continue
		}
		if why := f.Tag.Get("why"); why != "" {
			rows = append(rows, fmt.Sprintf("| `%s` | %s |", path, why))
		}
		switch kindOf(f.Type) {
		case section:
			rows = append(rows, restarts(f.Type, path)...)
		case optional:
			rows = append(rows, restarts(f.Type.Elem(), path)...)
		case routes:
			rows = append(rows, restarts(f.Type.Elem(), path+"[]")...)
		case setting:
		}
	}
	return rows
}
