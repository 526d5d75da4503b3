package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/operate"
)

var update = flag.Bool("update", false, "write testdata/json anew")

// jsonCommands are the commands with --json. The API is played by a server whose documents have
// every member that their types have, so that none is renamed or lost unseen.
var jsonCommands = map[string][]string{
	"keys list":    {},
	"keys show":    {"k"},
	"keys find":    {"k"},
	"keys tail":    {"--every", "100ms"},
	"keys resolve": {"k", "--as", "late-answer", "--reason", "r", "--yes"},
	"keys release": {"k", "--reason", "r", "--yes"},
	"keys delete":  {"--state", "completed", "--reason", "r", "--yes"},
	"keys probe":   {"k"},
	"keys extend":  {"k", "--for", "1d", "--reason", "r", "--yes"},
	"keys snooze":  {"k", "--for", "1h", "--reason", "r"},
	"keys hand":    {"k", "--to", "ben"},
	"keys note":    {"k", "--reason", "r"},

	"keys bulk show":    {"bulk_1"},
	"keys bulk report":  {"bulk_1"},
	"keys bulk stop":    {"bulk_1", "--reason", "r"},
	"keys bulk resolve": {"--state", "unknown", "--reason", "r", "--yes"},
	"keys bulk probe":   {"--state", "unknown", "--reason", "r", "--yes"},
	"keys bulk snooze":  {"--state", "unknown", "--for", "1h", "--reason", "r", "--yes"},
	"keys bulk hand":    {"k_0123456789abcdef@fedcba9876543210", "--to", "ben", "--yes"},

	"store show":   {},
	"store accept": {"--reason", "r", "--yes"},

	"incidents list": {},
	"incidents show": {"i_1"},
	"routes":         {},
	"whoami":         {},
	"outbox list":    {},
	"outbox show":    {"1"},
	"outbox retry":   {"1", "--reason", "r", "--yes"},
	"outbox confirm": {"1", "--reason", "r", "--yes"},
	"outbox discard": {"1", "--reason", "r", "--yes"},
	"audit list":     {},
	"audit erase":    {"--scope", "acme", "--reason", "r", "--yes"},
	"status":         {"--fail-on", "none"},
	"report":         {"--since", "1d"},
	"doctor":         {"--config", "stet.yaml"},
	"compare":        {"--ledger", "ledger.csv", "--provider", "provider.csv"},
	"config test":    {"--config", "stet.yaml", "POST /v1/pay"},
	"token new":      {"--name", "kim", "--scope", "acme"},
}

// jsonDocuments are those of the API, by the beginning of their path; the longest counts.
var jsonDocuments = map[string]any{
	"/api/v1/keys":                 listWith[operate.Record]("keys"),
	"/api/v1/keys/":                full[operate.Record](),
	"/api/v1/find":                 full[operate.Search](),
	"/api/v1/incidents":            listWith[operate.Incident]("incidents"),
	"/api/v1/incidents/":           full[operate.Incident](),
	"/api/v1/routes":               listWith[operate.RouteFigures]("routes"),
	"/api/v1/outbox":               listWith[operate.Message]("messages"),
	"/api/v1/outbox/":              full[operate.Message](),
	"/api/v1/audit":                listWith[operate.Entry]("entries"),
	"/api/v1/audit/erase":          full[operate.Erased](),
	"/api/v1/whoami":               full[admin.Whoami](),
	"/api/v1/store":                full[operate.StoreIdentity](),
	"/api/v1/status":               full[operate.Status](),
	"/api/v1/bulk":                 map[string]string{"job": "bulk_1"},
	"/api/v1/bulk/":                full[operate.Job](),
	"/api/v1/bulk/count":           full[operate.Count](),
	"/api/v1/bulk/bulk_1/report":   full[operate.Failure](),
	"/api/v1/keys/k/probe":         full[operate.Probed](),
	"/api/v1/keys/default/k/probe": full[operate.Probed](),
}

// Every command with --json prints what it printed before: programs read it.
func TestJSONContract(t *testing.T) {
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"stet.yaml":  "upstream: http://127.0.0.1:1\nadmin: { listen: '127.0.0.1:1' }\nstore: { dsn: 'memory:' }\n",
		"ledger.csv": "id,amount,currency\na,1,EUR\nb,2,EUR\n", "provider.csv": "id,amount,currency\na,3,EUR\nc,4,USD\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	versions := atomic.Uint64{}
	at := plain(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(admin.Marker, "1")
		var doc any
		longest := ""
		for path, d := range jsonDocuments {
			if strings.HasPrefix(r.URL.Path, path) && len(path) > len(longest) {
				doc, longest = d, path
			}
		}
		if r.URL.Query().Get("limit") == "1000" && longest == "/api/v1/keys" { // tail prints what has another version
			record := full[operate.Record]()
			record.Version = versions.Add(1)
			doc = map[string]any{"keys": []operate.Record{record}, "next_cursor": ""}
		}
		_ = json.NewEncoder(w).Encode(doc) // the client is gone
	}))
	parser, err := newParser(&world{stdout: io.Discard, stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range parser.Model.Leaves(true) {
		name := strings.TrimPrefix(n.FullPath(), "stet ")
		flags := map[string]bool{}
		for _, f := range n.Flags {
			flags[f.Name] = true
		}
		if !flags["json"] {
			continue
		}
		args, ok := jsonCommands[name]
		if !ok {
			t.Errorf("stet %s has --json, and no line in jsonCommands", name)
			continue
		}
		args = append(append(strings.Fields(name), "--json"), args...)
		if flags["admin-ca"] {
			args = append(args, "--admin", at)
		}
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			out := &untilLine{cancel: func() {}}
			if name == "keys tail" {
				out.cancel = cancel
			}
			var errs bytes.Buffer
			status := run(ctx, args, nil, out, &errs)
			cancel()
			golden := filepath.Join(home, "testdata/json", strings.ReplaceAll(name, " ", "-")+".json")
			got := steady(t, out.Bytes())
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v; go test -run TestJSONContract -update writes it\n%d %s", err, status, &errs)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("stet %s prints\n%s\nwant\n%s\n%d %s", name, got, want, status, &errs)
			}
		})
	}
}

// untilLine calls cancel after the first line.
type untilLine struct {
	bytes.Buffer
	cancel func()
}

func (u *untilLine) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\n")) {
		defer u.cancel()
	}
	return u.Buffer.Write(p)
}

// steady is a document with what differs from run to run replaced, in this one place.
func steady(t *testing.T, doc []byte) []byte {
	t.Helper()
	for _, r := range []struct{ is, becomes string }{
		{`stet_[\w-]{43}`, `TOKEN`},
		{`[0-9a-f]{64}`, `SHA256`},
		{`"version": ?"[0-9]+"`, `"version": "VERSION"`},
	} {
		doc = regexp.MustCompile(r.is).ReplaceAll(doc, []byte(r.becomes))
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(doc), "", "  "); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// full is a value with every member set.
func full[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem())
	return v
}

func listWith[T any](name string) map[string]any {
	return map[string]any{name: []T{full[T]()}, "next_cursor": ""}
}

var fullTime = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

func fill(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(fullTime))
		return
	case v.Type() == reflect.TypeFor[operate.JobState]():
		v.Set(reflect.ValueOf(operate.JobCompleted))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Uint8:
		v.SetUint('b')
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		elem := reflect.New(v.Type().Elem()).Elem()
		fill(elem)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("name").Convert(v.Type().Key()), elem)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	default:
		panic("fill: " + v.Type().String())
	}
}
