package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/cmd/internal/observe"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

// healthy is a configuration in which the doctor finds nothing. checkupWith has a gateway listen at
// the first address of this machine, and the API at the second.
const healthy = `
store: { dsn: "sqlite:stet.db", encryption_keys_file: keys.json }
scope: { header: X-Tenant }
admin: { listen: "127.0.0.1:1", token_file: token }
reconcile: { probe: { url: "http://127.0.0.1:2/{key}" } }
routes:
- { match: POST /v1/pay, mode: required }
`

// checkupWith makes a directory with a configuration and the files that it names, and plays the
// gateway and the API.
func checkupWith(t *testing.T, conf string) (args []string) {
	t.Helper()
	t.Chdir(t.TempDir())
	upstream := httptest.NewServer((&paymentsAPI{}).handler())
	t.Cleanup(upstream.Close)
	gateway := documents(t, map[string]any{"/api/v1/routes": map[string]any{"routes": []operate.RouteFigures{}},
		"/api/v1/status": operate.Status{}})
	conf = strings.NewReplacer("127.0.0.1:1", strings.TrimPrefix(gateway, "http://"),
		"http://127.0.0.1:2", upstream.URL).Replace(conf)
	for name, text := range map[string]string{"stet.yaml": conf, "token": "a-token-of-many-different-characters\n",
		"weak": "aaaaaaaaaaaaaaaaaaaaaaaab\n", "open": "a-pepper-that-is-long-enough", "short": "s3cret",
		"keys.json":   `{"primary": "k1", "keys": {"k1": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}}`,
		"tokens.json": `{"kim": {"sha256": "` + strings.Repeat("ab", 32) + `", "role": "admin", "expires": "2020-01-01T00:00:00Z"}}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod("open", 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"doctor", "--deep", "--config", "stet.yaml", "--upstream", upstream.URL}
}

// The doctor finds each mistake by its word, says what to do, and finds nothing where there is
// nothing.
func TestDoctor(t *testing.T) {
	for _, tt := range []struct {
		old, new, word, text string
		args                 []string
	}{
		{word: ""},
		{old: `, encryption_keys_file: keys.json`, word: "encryption", text: "stored in the clear (store.encryption_keys_file, default)"},
		{old: `"sqlite:stet.db", encryption_keys_file: keys.json`, new: `"memory:"`, word: "durability", text: "a restart forgets every key"},
		{old: `scope: { header: X-Tenant }`, word: "single-tenant", text: "all callers share one bucket"},
		{old: `, token_file: token`, word: "tokens", text: "every user of this machine can do everything"},
		{old: `token_file: token`, new: `token_file: weak`, word: "tokens", text: "2 different characters"},
		{old: `token_file: token`, new: `tokens_file: tokens.json`, word: "tokens", text: "the token of kim has expired"},
		{old: `mode: required`, new: `mode: shadow`, word: "unprotected-routes", text: "POST /v1/pay is shadow (routes[0].mode, stet.yaml:7:32)"},
		{old: `mode: required`, new: `policy: { default_ttl_s: 3600 }`, word: "retention", text: "results are kept for 1h, and clients may retry for 1d"},
		{word: "retention", text: "kept for 1d, and clients may retry for 3d (policy.default_ttl_s, default)",
			args: []string{"--retry-window", "3d"}},
		{old: `routes:`, new: "limits: { max_buffered_bytes: 2000000, share_per_scope: 0.5 }\nroutes:", word: "body-limits", text: "1048576 bytes, and one scope gets 1000000"},
		{old: `keys.json`, new: `keys.json, pepper_file: open`, word: "files", text: "open"},
		{word: "upstream", text: "cannot be reached", args: []string{"--upstream", "http://127.0.0.1:1"}},
		{old: `mode: required`, new: `mode: optional`, word: "fail-open", text: "POST /v1/pay is optional"},
		{old: `scope:`, new: "policy: { fail_mode: open }\nscope:", word: "fail-open",
			text: "while the store does not answer (policy.fail_mode, stet.yaml:3:"},
		{old: `mode: required`, new: `policy: { fail_mode: open }`, word: "fail-open", text: "(routes[0].policy.fail_mode, "},
		{old: `scope:`, new: "policy: { required_methods: [PATCH] }\nscope:", word: "fail-open", text: "a POST or PATCH without a key"},
		{old: `mode: required`, new: `policy: { required_methods: [PATCH] }`, word: "fail-open", text: "POST /v1/pay: a request without a key"},
		{old: `scope:`, new: "trusted_proxies: [10.0.0.0/8, '::/0']\nscope:", word: "trusted-proxies",
			text: "::/0 is everyone: each client makes up its own address in X-Forwarded-For (trusted_proxies[1], "},
		{old: `keys.json`, new: `keys.json, pepper_file: short`, word: "pepper", text: "the pepper has 6 bytes"},
		{old: `scope:`, new: "listen: '127.0.0.1:1'\nscope:", word: "listen", text: "listen and admin.listen are one address"},
		{old: `probe: { url: "http://127.0.0.1:2/{key}" }`, new: `interval_s: 10`, word: "probe", text: "each unknown outcome waits for a person"},
		{old: `http://127.0.0.1:2/`, new: `http://127.0.0.1:3/`, word: "probe", text: "127.0.0.1:3 cannot be reached"},
	} {
		t.Run(tt.word+tt.text, func(t *testing.T) {
			args := append(checkupWith(t, strings.Replace(healthy, tt.old, tt.new, 1)), tt.args...)
			status, out, errs := ran(t, append(args, "--json")...)
			want := exitFine
			if tt.word != "" {
				want = exitFindings
			}
			var doc examined
			err := json.Unmarshal([]byte(out), &doc)
			if err != nil || status != want || len(doc.LookedAt)+len(doc.NotLookedAt) != len(checks) {
				t.Fatalf("%d %v\n%s%s", status, err, out, errs)
			}
			if tt.word == "" {
				if len(doc.Findings) > 0 || len(doc.NotLookedAt) > 0 {
					t.Errorf("%+v", doc)
				}
				return
			}
			if len(doc.Findings) != 1 || doc.Findings[0].Code != tt.word || !strings.Contains(doc.Findings[0].Text, tt.text) ||
				doc.Findings[0].Mend == "" {
				t.Errorf("%v", doc.Findings)
			}
			_, out, _ = ran(t, args...)
			counts := fmt.Sprintf("\n1 found, %d fine, %d not looked\n", len(doc.LookedAt)-1, len(doc.NotLookedAt))
			if !strings.Contains(out, "found       "+tt.word+": ") || strings.Contains(out, "ok          "+tt.word+"\n") ||
				strings.Count(out, "ok          ") != len(doc.LookedAt)-1 || !strings.HasSuffix(out, counts) {
				t.Errorf("it prints\n%s", out)
			}
		})
	}
}

// examined is what the doctor prints for a program.
type examined struct {
	Findings    []operate.Warning
	LookedAt    []string          `json:"looked_at"`
	NotLookedAt []operate.Warning `json:"not_looked_at"`
}

// What the doctor could not look at is not ok, and tells the exit status where nothing was found.
func TestDoctorSaysWhatItCouldNotSee(t *testing.T) { // O06
	for name, tt := range map[string]struct {
		old, new string
		args     []string
		status   exit
		unseen   []string // what it says of each
	}{
		"the store": {old: `"sqlite:stet.db"`, new: `"sqlite:none/stet.db"`, status: exitUnreachable, unseen: []string{
			"store: the store cannot be reached: sqlite:none/stet.db: there is no directory none", "durability: the store could not", "clock: the store could not",
			"body-limits: the store could not", "double-effect: the store could not", "damage: the store could not"}},
		"the gateway": {args: []string{"--admin", "127.0.0.1:1"}, status: exitUnreachable, unseen: []string{
			"unprotected-routes: the running gateway was not asked", "unstored: the running gateway was not asked"}},
		"the gateway, and a finding": {old: `mode: required`, new: `mode: shadow`, args: []string{"--admin", "127.0.0.1:1"},
			status: exitFindings, unseen: []string{"unstored: the running gateway was not asked"}},
		"the records of a gateway": {old: `"sqlite:stet.db"`, new: `"memory:"`, args: []string{"--admin", "127.0.0.1:1"},
			status: exitFindings, unseen: []string{"unprotected-routes: ", "double-effect: the running gateway", "unstored: ",
				"damage: stet cannot read all"}},
		"the upstream": {args: []string{"--upstream", ""}, status: exitUnreachable, unseen: []string{"upstream: no upstream is set"}},
		"tokens": {old: `token_file: token`, new: `tokens_file: none`, status: exitUnreachable, unseen: []string{
			"tokens: admin.tokens_file: open none", "files: stet.yaml:4:"}},
		"the pepper": {old: `keys.json`, new: `keys.json, pepper_file: none`, status: exitUnreachable, unseen: []string{
			"pepper: open none", "files: stet.yaml:2:"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(checkupWith(t, strings.Replace(healthy, tt.old, tt.new, 1)), tt.args...)
			status, out, errs := ran(t, append(args, "--json")...)
			var doc examined
			if err := json.Unmarshal([]byte(out), &doc); err != nil || status != tt.status || len(doc.NotLookedAt) != len(tt.unseen) {
				t.Fatalf("%d %v\n%s%s", status, err, out, errs)
			}
			_, out, _ = ran(t, args...)
			for i, want := range tt.unseen {
				got := doc.NotLookedAt[i]
				if !strings.HasPrefix(got.Code+": "+got.Text, want) || got.Mend == "" || slices.Contains(doc.LookedAt, got.Code) {
					t.Errorf("%v, want %q", got, want)
				}
				if !strings.Contains(out, "not looked  "+want) || strings.Contains(out, "ok          "+got.Code+"\n") {
					t.Errorf("%s", out)
				}
			}
			if !strings.HasSuffix(out, fmt.Sprintf(", %d not looked\n", len(tt.unseen))) {
				t.Errorf("%s", out)
			}
		})
	}
}

// A store that a gateway brings up to date is not looked at before that.
func TestDoctorDoesNotLookIntoAnOldStore(t *testing.T) { // O06
	args := checkupWith(t, healthy)
	if status, out, errs := ran(t, "migrate", "up", "--store", "sqlite:stet.db"); status != exitFine {
		t.Fatal(out, errs)
	}
	db, err := sql.Open("sqlite", "stet.db")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec("DELETE FROM stet_schema WHERE version > 1"); err != nil {
		t.Fatal(err)
	}
	status, out, errs := ran(t, args...)
	if status != exitUnreachable || !strings.Contains(out, "not looked  store: "+errBehind.Error()) ||
		!strings.Contains(out, "not looked  double-effect: ") {
		t.Errorf("%d %s%s", status, out, errs)
	}
}

// The days that a certificate has are told before clients refuse it.
func TestDoctorCountsTheDaysOfCertificates(t *testing.T) { // O06
	for left, want := range map[time.Duration]string{-time.Hour: "the certificate ended on", 20 * 24 * time.Hour: "",
		10*24*time.Hour + time.Hour: "the certificate ends in 10 days, on"} {
		args := checkupWith(t, healthy+"tls: { cert_file: c.pem, key_file: c.key }\n")
		authority(t).sign(t, "c", &x509.Certificate{SerialNumber: big.NewInt(3), NotAfter: time.Now().Add(left)}, newKey(t))
		_, out, errs := ran(t, args...)
		if want != "" && !strings.Contains(out, "found       certificate: "+want) || want == "" && !strings.Contains(out, "ok          certificate\n") {
			t.Errorf("%s: %s%s", left, out, errs)
		}
	}
}

// An upstream that is one of the gateway's own listeners is not the API, whatever answers there.
func TestDoctorFindsTheGatewayAsItsOwnUpstream(t *testing.T) { // O06
	args := checkupWith(t, healthy)
	conf := readFile(t, "stet.yaml")
	_, at, _ := strings.Cut(conf, `listen: "`)
	at, _, _ = strings.Cut(at, `"`)
	status, out, errs := ran(t, append(args, "--upstream", "http://"+at)...)
	if status != exitFindings || !strings.Contains(out, "found       upstream: "+at+" is this gateway itself (admin.listen)") {
		t.Errorf("%d %s%s", status, out, errs)
	}
}

// Two addresses are one if the same connection would reach both.
func TestCollide(t *testing.T) { // O06
	for pair, want := range map[[2]string]bool{
		{":8080", "127.0.0.1:8080"}: true, {"0.0.0.0:8080", "[::1]:8080"}: true, {"127.0.0.1:8080", "127.0.0.1:8080"}: true,
		{":8080", ":8081"}: false, {"127.0.0.1:8080", "127.0.0.2:8080"}: false, {":0", ":0"}: false} {
		if collide(pair[0], pair[1]) != want || collide(pair[1], pair[0]) != want {
			t.Errorf("%v: want %v", pair, want)
		}
	}
}

// What could not be printed is the error, also where the command has another: a report that was cut
// off does not pass for one.
func TestOutputIsFull(t *testing.T) {
	args := checkupWith(t, strings.Replace(healthy, `"sqlite:stet.db", encryption_keys_file: keys.json`, `"memory:"`, 1))
	for _, args := range [][]string{args, append(args, "--json"), {"token", "new"}, {"secret", "new", "--pepper"}, {"version"}, nil} {
		var errs bytes.Buffer
		got := run(t.Context(), args, nil, fullDisk{}, &errs)
		if want := "stet: " + errFull.Error() + "\n"; got != exitError || !strings.HasSuffix(errs.String(), want) {
			t.Errorf("%q: exit %d, %q, want %q", args, got, errs.String(), want)
		}
	}
}

var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// What the store and a running gateway tell.
func TestDoctorLooksAtWhatRuns(t *testing.T) {
	conf, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	look := func(p *checkup, word string) []string {
		p.conf = conf
		i := slices.IndexFunc(checks, func(c struct {
			word string
			look func(context.Context, *checkup) []string
		}) bool {
			return c.word == word
		})
		return checks[i].look(t.Context(), p)
	}
	for skew, want := range map[time.Duration]int{0: 0, time.Hour: 1, -time.Hour: 1} {
		store := memstore.New(memstore.Config{Clock: func() time.Time { return time.Now().Add(skew) }})
		e, err := stet.New(store, stet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		p := &checkup{store: &dsn.Opened{Store: store}}
		if got := look(p, "clock"); len(got) > 0 {
			t.Errorf("nothing is known, and it finds %q", got)
		}
		if _, err := e.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: "k"}}); err != nil {
			t.Fatal(err)
		}
		if got := look(p, "clock"); len(got) != want || want == 1 && !strings.Contains(got[0], "are 59m59.") &&
			!strings.Contains(got[0], "are 1h0m0") {
			t.Errorf("%s: %q", skew, got)
		}
	}
	if got := look(&checkup{store: &dsn.Opened{Store: memstore.New(memstore.Config{}), Warnings: []string{"it evicts"}}},
		"durability"); !slices.Equal(got, []string{"it evicts"}) {
		t.Errorf("%q", got)
	}
	figures := []operate.RouteFigures{{Route: "default", Unprotected: 3}, {Match: "POST /v1/pay"}}
	if got := look(&checkup{routes: figures}, "unprotected-routes"); len(got) != 1 ||
		!strings.Contains(got[0], "what no route matches: 3 requests") {
		t.Errorf("%q", got)
	}
}

// Double effects are in the store, and what is not stored yet is with the gateway.
func TestDoctorFindsDoubleEffects(t *testing.T) { // K03, K03c
	store := memstore.New(memstore.Config{})
	e, err := stet.New(store, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := &checkup{conf: &config.Config{}, store: &dsn.Opened{Store: store}}
	if got := lookForDoubleEffects(t.Context(), p); len(got) > 0 {
		t.Errorf("%q", got)
	}
	id := stet.ID{Scope: "acme", Key: "twice"}
	if err := execution.Double(t.Context(), e, id); err != nil {
		t.Fatal(err)
	}
	if got := lookForDoubleEffects(t.Context(), p); len(got) != 1 || !strings.HasPrefix(got[0], e.Tag(id)+" of scope acme was executed twice: attempt 1") {
		t.Errorf("%q", got)
	}
	if got := lookAtUnstored(t.Context(), p); len(got) > 0 {
		t.Errorf("%q", got)
	}
	p.status.Unstored = &operate.Unstored{Entries: 1, Bytes: 2048}
	if got := lookAtUnstored(t.Context(), p); len(got) != 1 || !strings.HasPrefix(got[0], "1 outcome that") {
		t.Errorf("%q", got)
	}
}

// limits.max_unstored_bytes is what the engine keeps at most.
func TestMaxUnstoredReachesTheEngine(t *testing.T) { // K03
	conf, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if conf.Limits.MaxUnstoredBytes != 64<<20 {
		t.Errorf("the default is %d", conf.Limits.MaxUnstoredBytes)
	}
	conf.Limits.MaxUnstoredBytes = 1
	store := faulty.New(memstore.New(memstore.Config{}), 1)
	log := new(bytes.Buffer)
	a := &app{conf: conf, log: newLog(log, slog.LevelWarn), metrics: observe.NewMetrics("test"), store: &dsn.Opened{Store: store}}
	if err := a.build(nil); err != nil {
		t.Fatal(err)
	}
	store.FailComplete(true)
	d, err := a.engine.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = d.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}})
	if _, err := a.engine.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: "new"}}); !errors.Is(err, stet.ErrUnstored) {
		t.Errorf("%v", err)
	}
	w := httptest.NewRecorder()
	a.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if text := w.Body.String(); !strings.Contains(text, "\nidem_unstored 1\n") {
		t.Error("the metric does not say so")
	}
	store.FailComplete(false)
	if err := a.engine.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if text := log.String(); !strings.Contains(text, "limits.max_unstored_bytes is reached") {
		t.Errorf("%s", text)
	}
}

// The doctor asks the gateway of the configuration for what only it knows.
func TestDoctorAsksTheGateway(t *testing.T) {
	at := documents(t, map[string]any{
		"/api/v1/routes": map[string]any{"routes": []operate.RouteFigures{{Match: "POST /v1/refund", Unprotected: 1}}},
		"/api/v1/status": operate.Status{Warnings: []operate.Warning{{Code: "restart-pending", Text: "the file has others",
			Mend: "Restart."}}}})
	args := checkupWith(t, strings.Replace(healthy, "127.0.0.1:1", strings.TrimPrefix(at, "http://"), 1))
	status, out, errs := ran(t, args...)
	for _, want := range []string{"found       unprotected-routes: POST /v1/refund: 1 request",
		"found       restart-pending: the file has others\n            → Restart."} {
		if status != exitFindings || !strings.Contains(out, want) {
			t.Errorf("%d %s%s", status, out, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(".", "stet.db")); err == nil {
		t.Error("it made a store")
	}
}
