package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

func flag(path, name, value string) Override {
	return Override{Path: path, Value: value, Origin: Origin{Kind: FromFlag, Name: name}}
}

func env(path, name, value string) Override {
	return Override{Path: path, Value: value, Origin: Origin{Kind: FromEnvironment, Name: name}}
}

func TestPrecedence(t *testing.T) {
	text := "listen: ':1'\nupstream: http://file\npolicy: { profile: ietf }\n"
	c := load(t, text, env("listen", "STET_LISTEN", ":2"), env("upstream", "STET_UPSTREAM", "http://env"), flag("listen", "--listen", ":3"))
	for path, want := range map[string]struct{ value, origin string }{
		"listen":             {`":3"`, "flag --listen"},
		"upstream":           {`"http://env"`, "environment variable STET_UPSTREAM"},
		"policy.profile":     {"ietf", "stet.yaml:3:20"},
		"policy.key.syntax":  {"sf-string", "profile ietf"},
		"store.dsn":          {`"sqlite:stet.db"`, "default"},
		"policy.wait_policy": {"no-wait", "default"},
		"policy.key.max_len": {"255", "default"},
		"policy.on_5xx":      {"replay", "default"},
		"read_timeout_s":     {"30", "default"},
		"limits.burst":       {"0", "default"},
	} {
		value, origin := c.lookup(t, path)
		if value != want.value || origin != want.origin {
			t.Errorf("%s = %s from %s, want %s from %s", path, value, origin, want.value, want.origin)
		}
	}
}

func (c *Config) lookup(t *testing.T, path string) (value, origin string) {
	t.Helper()
	c.lines(func(l line) {
		if l.path == path {
			value, origin = l.value, c.Origin(path).String()
		}
	})
	if origin == "" {
		t.Fatalf("there is no line for %s", path)
	}
	return value, origin
}

func TestOverridesAreChecked(t *testing.T) {
	for _, c := range []struct {
		over Override
		want string
	}{
		{flag("policy.profile", "--profile", "strip"), `flag --profile: policy.profile: "strip" is not one of default, ietf, stripe, stripe-v2, seed-strict, gateway-compat; did you mean stripe?`},
		{env("store.dsn", "STET_STORE", "pg:x"), `environment variable STET_STORE: store.dsn: there is no store "pg:"; there are memory:, file:DIR, sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE, mysql://USER:PASSWORD@HOST/DATABASE, redis://HOST, redis+cluster://HOST,HOST and redis+sentinel://HOST,HOST/NAME`},
		{env("admin.listen", "STET_ADMIN", "0.0.0.0:81"), "environment variable STET_ADMIN: admin.listen: 0.0.0.0:81 can be reached from elsewhere: that needs a token (admin.token_file), or listen on 127.0.0.1"},
	} {
		_, err := Load(Options{Overrides: []Override{c.over}})
		if err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// "A route's keys beat the file's policy, explicit keys beat the profile, --profile beats the
// file's."
func TestPolicyLayers(t *testing.T) {
	text := `
store: { dsn: "memory:" }
policy:
  profile: ietf
  on_5xx: release
  key: { min_len: 8 }
routes:
- match: POST /plain
- match: POST /own
  policy: { on_5xx: unknown, key: { max_len: 40 } }
- match: POST /strict
  mode: required
  policy: { profile: seed-strict, wait_policy: wait }
- match: POST /explicit
  policy: { profile: stripe, key: { syntax: lenient }, required_methods: [POST] }
`
	c := load(t, text)
	type seen struct {
		profile, syntax, on5xx, wait string
		minLen, maxLen, mismatch     int
		required                     string
	}
	see := func(p *Policy) seen {
		return seen{p.Profile, p.Key.Syntax, p.On5xx, p.WaitPolicy, p.Key.MinLen, p.Key.MaxLen, p.Status.Mismatch, strings.Join(p.RequiredMethods, ",")}
	}
	for i, want := range []seen{
		{"ietf", "sf-string", "release", "no-wait", 8, 255, 422, "POST,PATCH"},
		{"ietf", "sf-string", "unknown", "no-wait", 8, 40, 422, "POST,PATCH"},
		{"seed-strict", "opaque", "release", "wait", 8, 200, 409, "POST,PUT,PATCH,DELETE"},
		{"stripe", "lenient", "release", "wait", 8, 255, 400, "POST"},
	} {
		if got := see(&c.Routes[i].Policy); got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.Routes[i].Match, got, want)
		}
	}
	c = load(t, text, flag("policy.profile", "--profile", "gateway-compat"))
	for i, want := range []seen{
		{"gateway-compat", "opaque", "release", "no-wait", 8, 255, 422, ""},
		{"gateway-compat", "opaque", "unknown", "no-wait", 8, 40, 422, ""},
		{"seed-strict", "opaque", "release", "wait", 8, 200, 409, "POST,PUT,PATCH,DELETE"}, // a route's keys beat the file's, wherever that is said
	} {
		if got := see(&c.Routes[i].Policy); got != want {
			t.Errorf("--profile, %s:\ngot  %+v\nwant %+v", c.Routes[i].Match, got, want)
		}
	}
}

// A list that is given replaces the one below, and an empty one is a statement.
func TestEmptyLists(t *testing.T) {
	c := load(t, "policy: { no_store_status: [], required_methods: [] }\n")
	h := c.HTTP(nil)
	if h.NoStoreStatus == nil || len(h.NoStoreStatus) != 0 || h.RequiredMethods == nil || len(h.RequiredMethods) != 0 {
		t.Errorf("%v, %v: an empty list became the default", h.NoStoreStatus, h.RequiredMethods)
	}
}

// What the tags say is the default is the default of the packages below.
func TestDefaultsAgree(t *testing.T) {
	c, err := Load(Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := c.HTTP(nil)
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := stethttp.New(e, stethttp.SingleTenant, stethttp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := g.Config()
	want := d // every field that a guard fills in, and those that only the layers below know
	want.Route, want.Limits = "", nil
	want.Key.MinLen, want.Key.MaxLen = 1, stet.DefaultMaxKeyLen
	want.Status.Mismatch, want.Status.InvalidKey = 422, 400
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	limits := d.Limits.Config()
	limits.SmallReserve, limits.UnauthenticatedPerSecond, limits.Replicas = 0, 100, 1
	if c.Store.Timeout.Duration() != 2*time.Second || c.LimitsConfig() != limits || c.Limits.MaxRequestHeaderBytes != 64<<10 {
		t.Errorf("another default than the engine's, the limits' or the server's: %+v", c.LimitsConfig())
	}
}

// A profile goes through the file's terms and back unchanged: what no key says comes with its name.
func TestProfilesSurvive(t *testing.T) {
	for _, name := range stethttp.ProfileNames {
		c := load(t, "store: { dsn: 'memory:' }\npolicy: { profile: "+name+" }\n")
		got := c.HTTP(nil)
		want, err := stethttp.Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, want = filled(t, got), filled(t, want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s became\n%+v, it is\n%+v", name, got, want)
		}
	}
	f, _ := reflect.TypeFor[Policy]().FieldByName("Profile")
	if tag := strings.Split(f.Tag.Get("enum"), "|"); !slices.Equal(tag, stethttp.ProfileNames) {
		t.Errorf("the tag lists %v, there are %v", tag, stethttp.ProfileNames)
	}
}

// filled is a policy with its defaults, those that only the layers below know included.
func filled(t *testing.T, c stethttp.Config) stethttp.Config {
	t.Helper()
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := stethttp.New(e, stethttp.SingleTenant, c)
	if err != nil {
		t.Fatal(err)
	}
	c = g.Config()
	c.Limits = nil
	for _, set := range []struct {
		to      *int
		missing int
	}{{&c.Key.MinLen, 1}, {&c.Key.MaxLen, stet.DefaultMaxKeyLen}, {&c.Status.Mismatch, 422}, {&c.Status.InvalidKey, 400}} {
		*set.to = cmp.Or(*set.to, set.missing)
	}
	return c
}

// Every word stands for its constant.
func TestWords(t *testing.T) {
	type c = stethttp.Config
	for text, want := range map[string]struct {
		get func(*c) any
		v   any
	}{
		"ttl_from: creation":                        {func(h *c) any { return h.Policy.FromCreation }, true},
		"method_override: ignore":                   {func(h *c) any { return h.RefuseOverride }, false},
		"method_override: refuse":                   {func(h *c) any { return h.RefuseOverride }, true},
		"wait_policy: no-wait":                      {func(h *c) any { return h.Waiting }, stethttp.NoWait},
		"wait_policy: wait":                         {func(h *c) any { return h.Waiting }, stethttp.Wait},
		"wait_policy: accepted":                     {func(h *c) any { return h.Waiting }, stethttp.Accepted},
		"on_lease_expiry: unknown":                  {func(h *c) any { return h.Policy.OnLapse }, stet.LapseUnknown},
		"on_lease_expiry: resume":                   {func(h *c) any { return h.Policy.OnLapse }, stet.LapseResume},
		"on_lease_expiry: reexecute":                {func(h *c) any { return h.Policy.OnLapse }, stet.LapseReexecute},
		"on_5xx: replay":                            {func(h *c) any { return h.On5xx }, stethttp.ReplayFailure},
		"on_5xx: release":                           {func(h *c) any { return h.On5xx }, stethttp.ReleaseFailure},
		"on_5xx: unknown":                           {func(h *c) any { return h.On5xx }, stethttp.UnknownFailure},
		"on_panic: unknown":                         {func(h *c) any { return h.OnPanic }, stethttp.PanicUnknown},
		"on_panic: release":                         {func(h *c) any { return h.OnPanic }, stethttp.PanicRelease},
		"on_panic: replay":                          {func(h *c) any { return h.OnPanic }, stethttp.PanicReplay},
		"on_oversize: tombstone":                    {func(h *c) any { return h.OnOversize }, stethttp.Tombstone},
		"on_oversize: omit-body":                    {func(h *c) any { return h.OnOversize }, stethttp.OmitBody},
		"on_expired: execute":                       {func(h *c) any { return h.Policy.KeepExpired }, time.Duration(0)},
		"on_expired: reject":                        {func(h *c) any { return h.Policy.KeepExpired }, 30 * 24 * time.Hour},
		"on_complete_failure: withhold":             {func(h *c) any { return h.Withhold }, true},
		"fail_mode: open":                           {func(h *c) any { return h.FailOpen }, true},
		"execution_timeout_s: 0":                    {func(h *c) any { return h.Policy.Execution }, stet.Never},
		"execution_timeout_s: 1.5":                  {func(h *c) any { return h.Policy.Execution }, 1500 * time.Millisecond},
		"lease_s: 90":                               {func(h *c) any { return h.Policy.Lease }, 90 * time.Second},
		"default_ttl_s: 604800":                     {func(h *c) any { return h.Policy.Retain }, 7 * 24 * time.Hour},
		"min_ttl_s: 5":                              {func(h *c) any { return h.MinTTL }, 5 * time.Second},
		"max_ttl_s: 7200":                           {func(h *c) any { return h.MaxTTL }, 2 * time.Hour},
		"wait_timeout_s: 2":                         {func(h *c) any { return h.WaitTimeout }, 2 * time.Second},
		"retry_after_max_s: 5":                      {func(h *c) any { return h.RetryAfterMax }, 5 * time.Second},
		"max_body_bytes: 7":                         {func(h *c) any { return h.MaxBody }, int64(7)},
		"max_response_bytes: 8":                     {func(h *c) any { return h.MaxResponse }, int64(8)},
		"max_header_bytes: 9":                       {func(h *c) any { return h.MaxHeader }, int64(9)},
		"max_request_age_s: 300":                    {func(h *c) any { return h.MaxRequestAge }, 5 * time.Minute},
		"early_data: true":                          {func(h *c) any { return h.EarlyData }, true},
		"status: { mismatch: 409 }":                 {func(h *c) any { return h.Status.Mismatch }, 409},
		"status: { invalid_key: 422 }":              {func(h *c) any { return h.Status.InvalidKey }, 422},
		"key: { header: X-Key }":                    {func(h *c) any { return h.KeyHeader }, "X-Key"},
		"key: { syntax: lenient }":                  {func(h *c) any { return h.Key.Syntax }, stet.Lenient},
		"key: { syntax: sf-string }":                {func(h *c) any { return h.Key.Syntax }, stet.SFString},
		"key: { syntax: opaque }":                   {func(h *c) any { return h.Key.Syntax }, stet.Opaque},
		"key: { pattern: '[a-f]+' }":                {func(h *c) any { return h.Key.Pattern.String() }, "^(?:[a-f]+)$"},
		"fingerprint: { body: auto }":               {func(h *c) any { return h.Fingerprint.Body }, stet.BodyAuto},
		"fingerprint: { body: jcs }":                {func(h *c) any { return h.Fingerprint.Body }, stet.BodyJCS},
		"fingerprint: { body: raw }":                {func(h *c) any { return h.Fingerprint.Body }, stet.BodyRaw},
		"fingerprint: { decode: true }":             {func(h *c) any { return h.Fingerprint.Decode }, true},
		"fingerprint: { exclude_fields: [ts] }":     {func(h *c) any { return h.Fingerprint.ExcludeFields[0] }, "ts"},
		"fingerprint: { exclude: [/a] }":            {func(h *c) any { return h.Fingerprint.Exclude[0] }, "/a"},
		"fingerprint: { host: true }":               {func(h *c) any { return h.Fingerprint.Host }, true},
		"fingerprint: { headers: [X-A] }":           {func(h *c) any { return h.Fingerprint.Headers[0] }, "X-A"},
		"replay: { keep_set_cookie: true }":         {func(h *c) any { return h.Replay.KeepSetCookie }, true},
		"replay: { drop_headers: [X-A] }":           {func(h *c) any { return h.Replay.DropHeaders[0] }, "X-A"},
		"replay: { markers: both }":                 {func(h *c) any { return h.Replay.Markers }, stethttp.BothMarkers},
		"replay: { markers: replayed }":             {func(h *c) any { return h.Replay.Markers }, stethttp.ReplayedOnly},
		"replay: { markers: replay }":               {func(h *c) any { return h.Replay.Markers }, stethttp.ReplayOnly},
		"replay: { markers: none }":                 {func(h *c) any { return h.Replay.Markers }, stethttp.NoMarkers},
		"fingerprint: {body: fields, fields: [/a]}": {func(h *c) any { return h.Fingerprint.Body }, stet.BodyFields},
	} {
		conf := load(t, "policy:\n  "+text+"\n")
		h := conf.HTTP(nil)
		if got := want.get(&h); got != want.v {
			t.Errorf("%s: %v, want %v", text, got, want.v)
		}
	}
	for word, want := range map[string]stethttp.Mode{"off": stethttp.ModeOff, "shadow": stethttp.ModeShadow, "optional": stethttp.ModeOptional, "required": stethttp.ModeRequired} {
		conf := load(t, "routes:\n- { match: /x, mode: "+word+" }\n")
		if h := conf.RouteHTTP(0, nil); h.Mode != want || h.Route != "/x" {
			t.Errorf("mode %s: %v, route %s", word, h.Mode, h.Route)
		}
	}
	conf := load(t, "routes:\n- match: /x\n")
	if h := conf.RouteHTTP(0, nil); h.Mode != stethttp.ModeByMethod {
		t.Errorf("no mode: %v", h.Mode)
	}
}

func (c *Config) show(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	if err := c.Show(&b, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What `config show` prints is a configuration that means the same.
func FuzzLoad(f *testing.F) {
	f.Add("policy: { lease_s: 1.5 }\nroutes:\n- match: POST /x\n")
	f.Add("a: &a [*a]\n---\n")
	f.Add("store: {dsn: 'memory:?max_keys=1'}\nscope: {header: X}\n")
	f.Add("policy: {profile: stripe, key: {pattern: '(a|b)*'}}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Load(write(t, text))
		if err != nil {
			return
		}
		shown := c.show(t)
		again, err := Load(write(t, shown))
		if err != nil {
			t.Fatalf("what show prints is refused: %v\n%s", err, shown)
		}
		if was, is := fmt.Sprintf("%+v", c.HTTP(nil)), fmt.Sprintf("%+v", again.HTTP(nil)); was != is || c.show(t) != again.show(t) {
			t.Fatalf("what show prints means something else:\n%s", shown)
		}
	})
}

// What the door is told arrives there.
func TestTheDoor(t *testing.T) { // C03, C13
	c := load(t, "trusted_proxies: [10.0.0.7, 192.168.0.0/16, '::1', '::ffff:10.0.0.8']\nlimits: { max_target_bytes: 100 }\nroutes:\n- { match: /a, match_encoded: true }\n- match: /b\n")
	if got := fmt.Sprint(c.Proxies()); got != "[10.0.0.7/32 192.168.0.0/16 ::1/128 10.0.0.8/32]" {
		t.Errorf("trusted proxies: %s", got)
	}
	if c.LimitsConfig().MaxTargetBytes != 100 || !c.Routes[0].MatchEncoded || c.Routes[1].MatchEncoded {
		t.Errorf("%+v %+v", c.LimitsConfig(), c.Routes)
	}
}

// C18: the origins of scripts are the whole gateway's, and every route has them.
func TestCORSIsForAllRoutes(t *testing.T) {
	c := load(t, "cors: { allow_origins: ['https://shop.example'] }\nroutes: [{ match: POST /x }]\n")
	for _, h := range []stethttp.Config{c.HTTP(nil), c.RouteHTTP(0, nil)} {
		if !slices.Equal(h.AllowOrigins, []string{"https://shop.example"}) {
			t.Errorf("%q", h.AllowOrigins)
		}
	}
}
