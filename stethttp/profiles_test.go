package stethttp_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

var update = flag.Bool("update", false, "write docs/profiles.md anew")

const profilesIntro = `<!-- Written by TestProfilesDoc from the code: go test ./stethttp -run TestProfilesDoc -update -->
# Profiles

A profile is a published dialect of idempotency keys: settings, and the form of the layer's own errors. Choose one with
` + "`policy: { profile: NAME }`, `--profile NAME` or `stethttp.Profile(NAME)`" + `; every setting that is given besides beats it.

- **default**: a new API. What [http.md](http.md) says, all of it.
- **ietf**: clients written for draft-ietf-httpapi-idempotency-key-header-07, which send a quoted string and read the draft's
  titles. Bodies are compared byte by byte, so a client has to send the bytes it sent first.
- **stripe**: clients written for Stripe's API v1, or an API that promises the same. Failures are results, and replayed.
- **stripe-v2**: clients of Stripe's API v2: keys on POST and DELETE for thirty days, and a failure is tried again.
- **seed-strict**: everything that changes state has a key, and whatever the handler answers is the result. The end of a lease runs
  the request again, so an effect may happen twice where the process died: the handler has to recognise its own work. The
  gateway refuses a store on disk without ` + "`store.encryption_keys_file`" + `.
- **gateway-compat**: in the place of a simple gateway that keeps keys in Redis, for clients that read ` + "`{\"error\": …}`" + `. It also runs
  again after the end of a lease, and asks nobody for a key. For a move, not for a beginning.

## Settings that differ

Durations are in seconds. ` + "`stet config init`" + ` says what each is for.

`

const errorForm = "form of errors" // no key says it: it comes with the profile

// knobs are all fields of a Config, as the configuration file calls them. A field without a name is
// no matter of profiles: the program or another part of the file says it.
var knobs = []struct {
	field, name string
	words       []string // of an enumeration, in the order of its constants
}{
	{"Route", "", nil},
	{"Mode", "", nil},
	{"EnabledMethods", "enabled_methods", nil},
	{"RequiredMethods", "required_methods", nil},
	{"RefuseOverride", "method_override: refuse", nil},
	{"KeyHeader", "key.header", nil},
	{"Key.Syntax", "key.syntax", []string{"lenient", "sf-string", "opaque"}},
	{"Key.MinLen", "key.min_len", nil},
	{"Key.MaxLen", "key.max_len", nil},
	{"Key.Pattern", "key.pattern", nil},
	{"Fingerprint.Body", "fingerprint.body", []string{"auto", "jcs", "raw", "fields"}},
	{"Fingerprint.Fields", "fingerprint.fields", nil},
	{"Fingerprint.Exclude", "fingerprint.exclude", nil},
	{"Fingerprint.ExcludeFields", "fingerprint.exclude_fields", nil},
	{"Fingerprint.Headers", "fingerprint.headers", nil},
	{"Fingerprint.Host", "fingerprint.host", nil},
	{"Fingerprint.Decode", "fingerprint.decode", nil},
	{"Status.InvalidKey", "status.invalid_key", nil},
	{"Status.Mismatch", "status.mismatch", nil},
	{"Waiting", "wait_policy", []string{"no-wait", "wait", "accepted"}},
	{"WaitTimeout", "wait_timeout_s", nil},
	{"RetryAfterMax", "retry_after_max_s", nil},
	{"Policy.Execution", "execution_timeout_s", nil},
	{"Policy.Lease", "lease_s", nil},
	{"Policy.Rules.OnLapse", "on_lease_expiry", []string{"unknown", "resume", "reexecute"}},
	{"On5xx", "on_5xx", []string{"replay", "release", "unknown"}},
	{"OnPanic", "on_panic", []string{"unknown", "release", "replay"}},
	{"OnOversize", "on_oversize", []string{"tombstone", "omit-body"}},
	{"Withhold", "on_complete_failure: withhold", nil},
	{"FailOpen", "fail_mode: open", nil},
	{"StatusOutcome", "status_outcome", nil},
	{"TrustHeader", "trust_header", nil},
	{"NoStoreStatus", "no_store_status", nil},
	{"Policy.Rules.Retain", "default_ttl_s", nil},
	{"MinTTL", "min_ttl_s", nil},
	{"MaxTTL", "max_ttl_s", nil},
	{"Policy.Rules.FromCreation", "ttl_from: creation", nil},
	{"Policy.Rules.KeepExpired", "on_expired: reject, for", nil},
	{"MaxBody", "max_body_bytes", nil},
	{"MaxResponse", "max_response_bytes", nil},
	{"MaxHeader", "max_header_bytes", nil},
	{"BodyTimeout", "", nil},
	{"MaxRequestAge", "max_request_age_s", nil},
	{"EarlyData", "early_data", nil},
	{"Replay.KeepSetCookie", "replay.keep_set_cookie", nil},
	{"Replay.DropHeaders", "replay.drop_headers", nil},
	{"Replay.Markers", "replay.markers", []string{"both", "replayed", "replay", "none"}},
	{"Errors", errorForm, []string{"problem+json", "problem+json, the draft's titles", "Stripe's error object", "`{\"error\": …}`"}},
	{"ProblemBase", "", nil},
	{"Limits", "", nil},
	{"Client", "", nil},
	{"Continue", "", nil},
	{"AllowOrigins", "", nil},
	{"Render", "", nil},
}

// fieldsOf calls f for each exported field of v that is no struct, with its path.
func fieldsOf(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		if at := path + field.Name; v.Field(i).Kind() == reflect.Struct {
			fieldsOf(v.Field(i), at+".", f)
		} else {
			f(at, v.Field(i))
		}
	}
}

// TestEverySettingIsInTheProfilesDoc: a new field of Config has to say what it is called, and
// whether profiles may differ in it.
func TestEverySettingIsInTheProfilesDoc(t *testing.T) {
	listed := map[string]string{}
	for _, k := range knobs {
		listed[k.field] = k.name
	}
	for _, profile := range stethttp.ProfileNames {
		c, err := stethttp.Profile(profile)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		fieldsOf(reflect.ValueOf(c), "", func(path string, v reflect.Value) {
			name, ok := listed[path]
			switch seen[path] = true; {
			case !ok:
				t.Errorf("Config.%s is not among the knobs: add it, with the name it has in the configuration file", path)
			case name == "" && !v.IsZero():
				t.Errorf("profile %s sets Config.%s, which has no name among the knobs", profile, path)
			}
		})
		for _, k := range knobs {
			if !seen[k.field] {
				t.Errorf("there is no Config.%s", k.field)
			}
		}
	}
}

// setting writes the value of a field.
func setting(v reflect.Value, words []string) string {
	if words != nil {
		return words[v.Uint()]
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		if x == stet.Never {
			return "none"
		}
		return strconv.FormatFloat(x.Seconds(), 'f', -1, 64)
	case bool:
		return map[bool]string{true: "yes", false: "no"}[x]
	}
	switch v.Kind() {
	case reflect.Slice:
		var all []string
		for i := range v.Len() {
			all = append(all, fmt.Sprint(v.Index(i)))
		}
		if len(all) == 0 {
			return "none"
		}
		return strings.Join(all, " ")
	case reflect.Map: // no profile has one
		return "none; in the gateway 502, 503 and 504 are unknown where `on_5xx` is replay"
	case reflect.Pointer, reflect.String:
		if v.IsZero() {
			return "none"
		}
	}
	return fmt.Sprint(v)
}

// table writes rows of one cell for each profile.
type table struct{ strings.Builder }

func (b *table) head(title string) {
	fmt.Fprintf(b, "| %s | %s |\n", title, strings.Join(stethttp.ProfileNames, " | "))
	fmt.Fprintf(b, "|---|%s\n", strings.Repeat("---|", len(stethttp.ProfileNames)))
}

func (b *table) row(name string, cells []string) {
	fmt.Fprintf(b, "| %s | %s |\n", name, strings.Join(cells, " | "))
}

func profilesDoc(t *testing.T) string {
	var b table
	b.WriteString(profilesIntro)
	values := map[string][]string{}
	for _, profile := range stethttp.ProfileNames {
		c := guardOf(t, profile).Config()
		c.Key.MinLen, c.Key.MaxLen = orElse(c.Key.MinLen, 1), orElse(c.Key.MaxLen, stet.DefaultMaxKeyLen)
		c.Status.InvalidKey = orElse(c.Status.InvalidKey, stethttp.NewProblem(stethttp.InvalidKey, "").Status)
		c.Status.Mismatch = orElse(c.Status.Mismatch, stethttp.NewProblem(stethttp.KeyReused, "").Status)
		fieldsOf(reflect.ValueOf(c), "", func(path string, v reflect.Value) {
			for _, k := range knobs {
				if k.field == path {
					values[path] = append(values[path], setting(v, k.words))
				}
			}
		})
	}
	b.head("setting")
	var same []string
	for _, k := range knobs {
		switch all := values[k.field]; {
		case k.name == "":
		case len(slices.Compact(slices.Clone(all))) > 1:
			if k.name != errorForm {
				k.name = "`" + k.name + "`"
			}
			b.row(k.name, all)
		default:
			same = append(same, fmt.Sprintf("`%s` %s", k.name, all[0]))
		}
	}
	b.WriteString("\nIn every profile:\n\n")
	for _, setting := range same {
		b.WriteString("- " + setting + "\n")
	}
	b.WriteString("\n## What a client sees\n\nEach cell is what a guarded handler with that profile did.\n\n")
	b.head("request")
	for _, s := range sights {
		var cells []string
		for _, profile := range stethttp.ProfileNames {
			cells = append(cells, s.see(&sight{t, profile}))
		}
		b.row(s.name, cells)
	}
	b.WriteString(profilesAnswers)
	b.head("code")
	for _, code := range sortedCodes() {
		var cells []string
		for _, profile := range stethttp.ProfileNames {
			a := hear(t, own(t, profile, code))
			cell := fmt.Sprint(a.StatusCode)
			if a.object != nil && a.object.Type != "" {
				cell += " " + a.object.Type
				if a.object.Code != "" && a.object.Code != string(code) {
					cell += ", " + a.object.Code
				}
			}
			cells = append(cells, cell)
		}
		b.row("`"+string(code)+"`", cells)
	}
	b.WriteString(profilesSDKs)
	for _, code := range sortedCodes() {
		a := hear(t, own(t, "stripe", code))
		var cells []string
		for _, s := range sdks {
			if strings.HasSuffix(s.name, " v1") {
				cells = append(cells, string(s.raises(a)), map[bool]string{true: "yes", false: "no"}[s.retries(a)])
			}
		}
		b.row("`"+string(code)+"`", cells)
	}
	b.WriteString(profilesOutro)
	return b.String()
}

// sortedCodes are the codes by the status of profile default, and then by name.
func sortedCodes() []stethttp.Code {
	codes := stethttp.Codes()
	slices.SortFunc(codes, func(a, b stethttp.Code) int {
		if d := stethttp.NewProblem(a, "").Status - stethttp.NewProblem(b, "").Status; d != 0 {
			return d
		}
		return strings.Compare(string(a), string(b))
	})
	return codes
}

const profilesAnswers = `
## What the layer answers by itself

The status, and in Stripe's form the type, and the code where that is another. ` + "`in-progress`" + ` is what a duplicate hears where
it does not wait, or has waited in vain. What each code means is in [http.md](http.md#answers-of-the-layer).

`

const profilesSDKs = `
## What Stripe's clients make of it

stripe-go v82.5.1 and stripe-node 23.1.0, with profile stripe and API v1. Both make up a key for a POST that has none, send
every try of a call with the same key, and try three times; neither reads ` + "`Retry-After`" + `.

- stripe-node goes by ` + "`Stripe-Should-Retry`" + `, which says what ` + "`retryable`" + ` says, and chooses its class by the status.
- stripe-go chooses its class by the type, and sends a request again after an error object only where that is a 429 with the
  code ` + "`lock_timeout`" + `; no header changes it. So the profiles have ` + "`wait_policy: wait`" + `: a duplicate gets the first answer, as if
  it had asked again.
- What is raised for a request that may have had its effect is never a class that programs take for "not charged".
- A failure of the handler that is kept says ` + "`Stripe-Should-Retry: false`" + `, the first time and on every replay: trying again
  would bring the same. stripe-go sends the request again where the body is no error object, whatever the header says; it gets
  the replay.
- ` + "`wait_policy: accepted`" + ` is refused: stripe-go takes an answer below 400 for the result.
- Give the clients longer than ` + "`wait_timeout_s` and `execution_timeout_s`" + `: both wait 80 s unless they are told otherwise.

| code | stripe-go raises | sends it again | stripe-node raises | sends it again |
|---|---|---|---|---|
`

const profilesOutro = `
After ` + "`outcome-unknown`, `execution-timeout` and `upstream-failed`" + ` a program sends the same request with the same key later, or
asks the API for the object. A new key would be a new operation.
`

type seen struct {
	name string
	see  func(*sight) string
}

// sights are what a client of a profile sees, found out by asking.
var sights = []seen{
	{"POST", func(s *sight) string { return s.covers("POST") }},
	{"PATCH", func(s *sight) string { return s.covers("PATCH") }},
	{"PUT", func(s *sight) string { return s.covers("PUT") }},
	{"DELETE", func(s *sight) string { return s.covers("DELETE") }},
	{"GET", func(s *sight) string { return s.covers("GET") }},
	{"key `k`", func(s *sight) string { return s.key("k") }},
	{"key `\"k\"`", func(s *sight) string { return s.key(`"k"`) }},
	{"`k` and then `\"k\"`", func(s *sight) string {
		r := s.rig(created)
		if r.ask("POST", `k`, "{}").StatusCode/100 != 2 || r.ask("POST", `"k"`, "{}").StatusCode/100 != 2 {
			return "one is refused"
		}
		return map[int64]string{1: "one key", 2: "two keys"}[r.runs.Load()]
	}},
	{"key `k 1`", func(s *sight) string { return s.key("k 1") }},
	{"empty key", func(s *sight) string { return s.key(" ") }},
	{"key of 201 bytes", func(s *sight) string { return s.key(`"` + strings.Repeat("k", 201) + `"`) }},
	{"key of 256 bytes", func(s *sight) string { return s.key(`"` + strings.Repeat("k", 256) + `"`) }},
	{"the same JSON, spelled differently", func(s *sight) string {
		return s.retry(func(r *http.Request) { setBody(r, `{ "amount": 1.0 }`) })
	}},
	{"other JSON", func(s *sight) string { return s.retry(func(r *http.Request) { setBody(r, `{"amount":2}`) }) }},
	{"other `Accept-Language`", func(s *sight) string {
		return s.retry(func(r *http.Request) { r.Header.Set("Accept-Language", "de") })
	}},
	{"retry of a 400", func(s *sight) string { return s.again(400) }},
	{"retry of a 401", func(s *sight) string { return s.again(401) }},
	{"retry of a 429", func(s *sight) string { return s.again(429) }},
	{"retry of a 500", func(s *sight) string { return s.again(500) }},
	{"retry of a panic", func(s *sight) string {
		r := s.rig(func(http.ResponseWriter, *http.Request) { panic("boom") })
		func() {
			defer func() { _ = recover() }()
			r.ask("POST", `"k"`, "{}")
		}()
		return fmt.Sprint(r.ask("POST", `"k"`, "{}").StatusCode, ", not run")
	}},
	{"duplicate while the first runs", (*sight).duplicate},
	{"headers of a first answer", func(s *sight) string { return s.rig(created).added(`"k"`) }},
	{"headers of a replay", func(s *sight) string {
		r := s.rig(created)
		r.added(`"k"`)
		return r.added(`"k"`)
	}},
	{"headers of an error", func(s *sight) string {
		r := s.rig(created)
		r.ask("POST", `"k"`, `{}`)
		return names(r.ask("POST", `"k"`, `{"other":1}`).Header)
	}},
	{"body of an error", func(s *sight) string {
		r := s.rig(created)
		r.ask("POST", `"k"`, `{}`)
		w := r.ask("POST", `"k"`, `{"other":1}`)
		var doc map[string]any
		if err := json.NewDecoder(w.Body).Decode(&doc); err != nil {
			s.t.Fatal(err)
		}
		return w.Header.Get("Content-Type") + ": " + strings.Join(members(doc), ", ")
	}},
	{"a result is kept", func(s *sight) string {
		until, err := http.ParseTime(s.rig(created).ask("POST", `"k"`, "{}").Header.Get("Idempotency-Expires"))
		if err != nil {
			s.t.Fatal(err)
		}
		return fmt.Sprintf("%.0f h", time.Until(until).Hours())
	}},
}

// sight is a look at a profile.
type sight struct {
	t       *testing.T
	profile string
}

func (s *sight) rig(h http.HandlerFunc) *looking {
	return &looking{profiled(s.t, s.profile, nil, h)}
}

type looking struct{ *rig }

func (r *looking) ask(method, key, body string, more ...func(*http.Request)) *http.Response {
	req := httptest.NewRequest(method, "/", nil)
	setBody(req, body)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for _, f := range more {
		f(req)
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w.Result()
}

func setBody(r *http.Request, body string) {
	n := httptest.NewRequest(r.Method, "/", strings.NewReader(body))
	r.Body, r.ContentLength = n.Body, n.ContentLength
}

// covers says what a profile does about keys on a method.
func (s *sight) covers(method string) string {
	r := s.rig(created)
	r.ask(method, `"k"`, "{}")
	r.ask(method, `"k"`, "{}")
	switch n := r.runs.Load(); {
	case n == 2:
		return "passes"
	case r.ask(method, "", "{}").StatusCode == 400:
		return "required"
	}
	return "honoured"
}

// key says what becomes of a key.
func (s *sight) key(key string) string {
	w := s.rig(created).ask("POST", key, "{}")
	if w.StatusCode != 201 {
		return fmt.Sprint(w.StatusCode)
	}
	if echo := w.Header.Get("Idempotency-Key"); len(echo) < 20 {
		return "echoed as `" + echo + "`"
	}
	return "taken"
}

// retry says what another request with the same key gets.
func (s *sight) retry(change func(*http.Request)) string {
	r := s.rig(created)
	r.ask("POST", `"k"`, `{"amount":1}`)
	if w := r.ask("POST", `"k"`, `{"amount":1}`, change); w.StatusCode != 201 {
		return fmt.Sprint(w.StatusCode)
	}
	return "replay"
}

// again says what a retry gets after the handler's answer with a status.
func (s *sight) again(status int) string {
	r := s.rig(failing(status))
	r.ask("POST", `"k"`, "{}")
	if w := r.ask("POST", `"k"`, "{}"); w.StatusCode == status && r.runs.Load() == 1 {
		return "replay"
	}
	return "runs"
}

// added lists the headers that are the layer's.
func (r *looking) added(key string) string {
	h := r.ask("POST", key, "{}").Header
	for _, own := range []string{"Location", "Date", "Set-Cookie", "Content-Type"} {
		delete(h, own)
	}
	return names(h)
}

func names(h http.Header) string { return strings.Join(slices.Sorted(maps.Keys(h)), ", ") }

// members lists the names in a document, those of an object in it with its own before them.
func members(doc map[string]any) (all []string) {
	for name, v := range doc {
		inner, ok := v.(map[string]any)
		if !ok {
			all = append(all, name)
		}
		for _, m := range members(inner) {
			all = append(all, name+"."+m)
		}
	}
	slices.Sort(all)
	return all
}

// duplicate says what a request hears whose key is at work for ten seconds more.
func (s *sight) duplicate() (heard string) {
	synctest.Test(s.t, func(t *testing.T) {
		r := (&sight{t, s.profile}).rig(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(10 * time.Second)
			created(w, r)
		})
		done := make(chan *http.Response)
		go func() { done <- r.ask("POST", `"k"`, "{}") }()
		synctest.Wait()
		began := time.Now()
		status := r.ask("POST", `"k"`, "{}").StatusCode
		if heard = fmt.Sprintf("%d at once", status); time.Since(began) > 0 {
			heard = fmt.Sprintf("waits, then %d", status)
		}
		<-done
	})
	return heard
}

func TestProfilesDoc(t *testing.T) {
	const path = "../docs/profiles.md"
	want := profilesDoc(t)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Fatalf("%s is not what the profiles do (%v): go test ./stethttp -run TestProfilesDoc -update", path, err)
	}
}

// TestProfilesAsDecided holds the profiles to what was promised for each, whatever the document
// says.
func TestProfilesAsDecided(t *testing.T) { // PF-01 to PF-04
	for name, want := range map[string][]string{ // in the order of ProfileNames
		"POST":                               {"required", "required", "honoured", "honoured", "required", "honoured"},
		"PATCH":                              {"required", "required", "passes", "passes", "required", "honoured"},
		"PUT":                                {"honoured", "passes", "passes", "passes", "required", "honoured"},
		"DELETE":                             {"honoured", "passes", "passes", "honoured", "required", "passes"},
		"empty key":                          {"400", "400", "400", "400", "422", "400"},
		"key of 201 bytes":                   {"taken", "taken", "taken", "taken", "422", "taken"},
		"key of 256 bytes":                   {"400", "400", "400", "400", "422", "400"},
		"`k` and then `\"k\"`":               {"one key", "one is refused", "two keys", "two keys", "two keys", "two keys"},
		"other JSON":                         {"422", "422", "400", "400", "409", "422"},
		"duplicate while the first runs":     {"409 at once", "409 at once", "waits, then 201", "waits, then 201", "409 at once", "409 at once"},
		"retry of a 500":                     {"replay", "replay", "replay", "runs", "replay", "replay"},
		"retry of a 429":                     {"runs", "runs", "runs", "runs", "replay", "runs"},
		"a result is kept":                   {"24 h", "24 h", "24 h", "720 h", "24 h", "24 h"},
		"other `Accept-Language`":            {"replay", "replay", "replay", "replay", "409", "replay"},
		"the same JSON, spelled differently": {"replay", "422", "replay", "replay", "replay", "replay"},
	} {
		i := slices.IndexFunc(sights, func(s seen) bool { return s.name == name })
		for j, profile := range stethttp.ProfileNames {
			if got := sights[i].see(&sight{t, profile}); got != want[j] {
				t.Errorf("%s, %s: %s, want %s", profile, name, got, want[j])
			}
		}
	}
	for profile, want := range map[string]stet.LapseRule{"default": stet.LapseUnknown, "ietf": stet.LapseUnknown,
		"stripe": stet.LapseUnknown, "stripe-v2": stet.LapseResume, "seed-strict": stet.LapseReexecute, "gateway-compat": stet.LapseReexecute} {
		if got := guardOf(t, profile).Config().Policy.OnLapse; got != want {
			t.Errorf("%s: the end of a lease is rule %d, want %d", profile, got, want)
		}
	}
}
