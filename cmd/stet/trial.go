package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/config"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

type configTestCmd struct {
	settings
	Request []string `arg:"" name:"request" help:"METHOD TARGET, such as 'PUT /v1/payments/7'."`
	Header  []string `placeholder:"'N: V'" sep:"none" help:"A header of the request; may be repeated."`
	JSON    bool     `name:"json" help:"Print JSON."`
}

// check implements [checked].
func (c *configTestCmd) check(*world) error {
	return errorOf(c.request())
}

// request reads the command line as a server would read the request.
func (c *configTestCmd) request() (*http.Request, error) {
	line := strings.Fields(strings.Join(c.Request, " "))
	if len(line) != 2 {
		return nil, failf(exitUsage, "no request is given; give METHOD TARGET, such as stet config test 'PUT /v1/payments/7'")
	}
	host, headers := "localhost", ""
	for _, h := range c.Header {
		name, value, ok := strings.Cut(h, ":")
		switch {
		case !ok || name == "":
			return nil, failf(exitUsage, "--header %q is not a header; give 'Name: value'", name)
		case strings.EqualFold(name, "Host"):
			host = strings.TrimSpace(value)
		default:
			headers += h + "\r\n"
		}
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.Join(line, " ") + " HTTP/1.1\r\nHost: " + host +
		"\r\n" + headers + "\r\n")))
	if err != nil {
		return nil, failf(exitUsage, "no server would read %s as a request: %w", strings.Join(line, " "), err)
	}
	r.RemoteAddr = "127.0.0.1:0"
	return r, nil
}

// verdict is what a gateway does with a request, as a document.
type verdict struct {
	Method string `json:"method"`
	Target string `json:"target"`
	Route  string `json:"route"`                // default: no route matches
	From   string `json:"route_from,omitempty"` // where it is written

	Mode     string `json:"mode"`
	ModeFrom string `json:"mode_from"`
	Acts     bool   `json:"acts"` // a request with a key is guarded, or compared in shadow

	Keyless tried  `json:"without_key"`
	Keyed   tried  `json:"with_key"`
	Scope   string `json:"scope"`
	// Scoped is what comes of the request as it was given, with a key, where a scope is configured.
	Scoped *tried `json:"as_given,omitempty"`

	Settings []config.Setting `json:"settings"` // of the policy, that are not the default
}

// tried is what became of one request.
type tried struct {
	Result string `json:"result"` // as in idem_requests_total
	Status int    `json:"status"`
	Code   string `json:"code,omitempty"` // of a refusal
	Detail string `json:"detail,omitempty"`

	route string
}

func (t tried) String() string {
	switch {
	case t.Code != "":
		return fmt.Sprintf("%d %s", t.Status, t.Code)
	case t.Result == "bypass":
		return "passes, unguarded"
	case t.Result == "new":
		return "runs once, and its retries get the same answer"
	}
	return fmt.Sprintf("%d %s", t.Status, t.Result)
}

func (c *configTestCmd) Run(w *world, conf *config.Config) error {
	marked := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(standIn, "1") }
	sample, stop, err := serveLocally(http.HandlerFunc(marked), anyPort)
	if err != nil {
		return err
	}
	defer stop()
	conf.Upstream = sample
	v, err := c.verdict(conf)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(w.stdout, v)
	}
	return v.print(w.stdout)
}

func (c *configTestCmd) verdict(conf *config.Config) (v verdict, err error) {
	anybody := *conf // the mode of a request is the same whosever it is
	anybody.Scope = config.Scope{SingleTenant: true}
	if v.Keyless, err = c.try(&anybody, ""); err != nil {
		return v, err
	}
	r, err := c.request()
	if err != nil {
		return v, err
	}
	i := slices.IndexFunc(conf.Routes, func(r config.Route) bool { return r.Match == v.Keyless.route })
	policy := &conf.Policy
	v.Method, v.Target, v.Route, v.Scope = r.Method, r.RequestURI, v.Keyless.route, conf.ScopeText()
	if conf.Unscoped() {
		v.Scope = "none: all callers share one bucket of keys"
	}
	mode, modeAt := "", "policy.required_methods"
	if i >= 0 {
		policy = &conf.Routes[i].Policy
		v.From = conf.Origin(fmt.Sprintf("routes[%d].match", i)).String()
		mode = conf.Routes[i].Mode
		modeAt = fmt.Sprintf("routes[%d].", i) + cmp.Or(ifTrue(mode != "", "mode"), "policy.required_methods")
	}
	if v.Keyed, err = c.try(&anybody, policy.Key.Header); err != nil {
		return v, err
	}
	v.Acts = v.Keyed.Result != "bypass" || mode == "shadow" && slices.Contains(policy.EnabledMethods, r.Method)
	v.Mode, v.ModeFrom = mode, conf.Origin(modeAt).String()
	switch {
	case v.Keyed.Result == "limited" && v.Keyed.Code == v.Keyless.Code: // at the door, before any route
		v.Mode, v.ModeFrom, v.Acts = "refused", "default", false
	case mode != "":
	case v.Keyless.Result == "missing_key":
		v.Mode = "required"
	case v.Keyed.Result == "bypass":
		v.Mode = "off"
	default:
		v.Mode = "optional"
	}
	if v.Acts && !conf.Unscoped() {
		scoped, err := c.try(conf, policy.Key.Header)
		if err != nil {
			return v, err
		}
		v.Scoped = &scoped
	}
	v.Settings = conf.Differing(i)
	return v, nil
}

// try sends the request through a gateway of its own; with a key if the header for it is named.
func (c *configTestCmd) try(conf *config.Config, keyHeader string) (t tried, err error) {
	r, err := c.request()
	if err != nil {
		return t, err
	}
	if keyHeader == "" {
		r.Header.Del("Idempotency-Key")
		r.Header.Del(conf.Policy.Key.Header)
		for i := range conf.Routes {
			r.Header.Del(conf.Routes[i].Policy.Key.Header)
		}
	} else if r.Header.Get(keyHeader) == "" {
		r.Header.Set(keyHeader, `"3b0b1a6e-6a0f-4c0e-9d0d-4f6f0f1f7c55"`) // an RFC 9651 string is a key in every syntax
	}
	answers := make(chan stet.Event, 1)
	observe := func(e stet.Event) {
		if e.Kind == stet.Answer {
			select {
			case answers <- e:
			default: // shadow mode has answered, and tells later what it would have said
			}
		}
	}
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Observe: observe})
	if err != nil {
		return t, err
	}
	g, err := handler(engine, conf, stethttp.NewLimits(conf.LimitsConfig()), slog.New(slog.DiscardHandler))
	if err != nil {
		return t, &statusError{exitUsage, err}
	}
	defer g.CloseIdle()
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	t.Status = w.Code
	select {
	case e := <-answers:
		t.route, t.Result = e.Route, e.Result
	default:
	}
	if w.Header().Get(standIn) == "" {
		var p struct{ Code, Detail string } // not all profiles have it
		_ = json.Unmarshal(w.Body.Bytes(), &p)
		t.Code, t.Detail = cmp.Or(p.Code, t.Result), p.Detail
	}
	return t, nil
}

// standIn marks the answers of what stands in for the API.
const standIn = "X-Stand-In"

func (v *verdict) print(out io.Writer) error {
	t := newTable(out)
	fmt.Fprintf(t, "request\t%s %s\n", visible(v.Method), visible(v.Target))
	fmt.Fprintf(t, "route\t%s\t# %s\n", v.Route, cmp.Or(v.From, "no route matches"))
	fmt.Fprintf(t, "mode\t%s\t# %s\n", v.Mode, v.ModeFrom)
	if v.Mode == "refused" {
		fmt.Fprintf(t, "always\t%s: %s\n", v.Keyless, v.Keyless.Detail)
		return t.Flush()
	}
	fmt.Fprintf(t, "without a key\t%s\n", v.Keyless)
	shadowed := ifTrue(v.Mode == "shadow", "passes, and what would have been answered is counted")
	fmt.Fprintf(t, "with a key\t%s\n", cmp.Or(shadowed, v.Keyed.String()))
	fmt.Fprintf(t, "scope\t%s\n", v.Scope)
	if v.Scoped != nil {
		fmt.Fprintf(t, "as given\t%s\n", v.Scoped)
	}
	for _, s := range v.Settings {
		fmt.Fprintf(t, "%s\t%s\t# %s\n", s.Name, s.Value, s.From)
	}
	return t.Flush()
}
