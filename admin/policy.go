package admin

import (
	"cmp"
	"context"
	"net/http"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/docs/problems"
	"github.com/stet-dev/stet/internal/outcome"
	"github.com/stet-dev/stet/stethttp"
)

// Policy is what an API publishes about its idempotency keys, as
// draft-ietf-httpapi-idempotency-key-header section 2.5.2 and its section on security ask for.
type Policy struct {
	Scope  string // where the scope comes from, such as "header X-Tenant-Id" or "single tenant"
	Routes []Route
}

// Route is a route and its settings, all defaults filled in.
type Route struct {
	Match  string // empty: requests that no other route matches
	Config stethttp.Config
}

// PolicyDoc is what /policy.json publishes.
type PolicyDoc = policyDoc

// RouteDoc is one route as /policy.json describes it.
type RouteDoc = routeDoc

// The document speaks the configuration file's language.
type (
	policyDoc struct {
		Scope  string     `json:"scope"`
		Routes []routeDoc `json:"routes"`
	}
	routeDoc struct {
		Route            string         `json:"route"`
		Match            string         `json:"match,omitzero"`
		Mode             string         `json:"mode"`
		EnabledMethods   []string       `json:"enabled_methods"`
		RequiredMethods  []string       `json:"required_methods,omitzero"`
		Key              keyDoc         `json:"key"`
		TTL              ttlDoc         `json:"ttl"`
		Fingerprint      fingerprintDoc `json:"fingerprint"`
		Statuses         map[string]int `json:"statuses"`
		NoStoreStatus    []int          `json:"no_store_status"`
		WaitPolicy       string         `json:"wait_policy"`
		OnLeaseExpiry    string         `json:"on_lease_expiry"`
		On5xx            string         `json:"on_5xx"`
		StatusOutcome    map[int]string `json:"status_outcome"`
		TrustHeader      string         `json:"trust_header,omitzero"`
		OnPanic          string         `json:"on_panic"`
		FailMode         string         `json:"fail_mode"`
		ExecutionTimeout float64        `json:"execution_timeout_s,omitzero"`
		RetryAfterMax    float64        `json:"retry_after_max_s"`
		MaxRequestAge    float64        `json:"max_request_age_s,omitzero"`
		MaxBody          int64          `json:"max_body_bytes"`
		MaxResponse      int64          `json:"max_response_bytes"`
		Problems         string         `json:"problem_base"`
	}
	keyDoc struct {
		Header  string `json:"header"`
		Syntax  string `json:"syntax"`
		MinLen  int    `json:"min_len"`
		MaxLen  int    `json:"max_len"`
		Pattern string `json:"pattern,omitzero"`
	}
	ttlDoc struct {
		Default     float64 `json:"default_ttl_s"`
		Min         float64 `json:"min_ttl_s"`
		Max         float64 `json:"max_ttl_s"`
		From        string  `json:"ttl_from"`
		OnExpired   string  `json:"on_expired"`
		KeepExpired float64 `json:"keep_expired_s,omitzero"`
	}
	fingerprintDoc struct {
		Recipe  string   `json:"recipe"`
		Body    string   `json:"body"`
		Fields  []string `json:"fields,omitzero"`
		Exclude []string `json:"exclude,omitzero"`
		Names   []string `json:"exclude_fields,omitzero"`
		Headers []string `json:"headers,omitzero"`
		Host    bool     `json:"host,omitzero"`
		Decode  bool     `json:"decode,omitzero"`
	}
)

// Policy implements [API].
func (v *visit) Policy(context.Context) (PolicyDoc, error) {
	if v.handler.conf.Policy == nil {
		return PolicyDoc{}, notFound
	}
	p := v.handler.conf.Policy()
	doc := policyDoc{p.Scope, []routeDoc{}}
	for i := range p.Routes {
		doc.Routes = append(doc.Routes, publish(&p.Routes[i]))
	}
	return doc, nil
}

func publish(r *Route) routeDoc {
	c := &r.Config
	d := routeDoc{
		Route: c.Route, Match: r.Match, Mode: c.Mode.String(), EnabledMethods: c.EnabledMethods,
		Key: keyDoc{c.KeyHeader, c.Key.Syntax.String(), max(c.Key.MinLen, 1),
			cmp.Or(c.Key.MaxLen, stet.DefaultMaxKeyLen), ""},
		TTL: ttlDoc{c.Policy.Retain.Seconds(), c.MinTTL.Seconds(), c.MaxTTL.Seconds(),
			"completion", "execute", 0},
		Fingerprint: fingerprintDoc{c.Fingerprint.String(), c.Fingerprint.Body.String(), c.Fingerprint.Fields, c.Fingerprint.Exclude, c.Fingerprint.ExcludeFields, c.Fingerprint.Headers, c.Fingerprint.Host, c.Fingerprint.Decode},
		Statuses:    statuses(c), NoStoreStatus: c.NoStoreStatus, WaitPolicy: c.Waiting.String(),
		OnLeaseExpiry: c.Policy.OnLapse.String(), On5xx: c.On5xx.String(), StatusOutcome: outcome.Words(c.StatusOutcome), TrustHeader: c.TrustHeader, OnPanic: c.OnPanic.String(), FailMode: "closed",
		RetryAfterMax: c.RetryAfterMax.Seconds(), MaxRequestAge: c.MaxRequestAge.Seconds(),
		MaxBody: c.MaxBody, MaxResponse: c.MaxResponse, Problems: c.ProblemBase,
	}
	if c.Mode == stethttp.ModeByMethod {
		d.RequiredMethods = c.RequiredMethods
	}
	if c.Policy.Execution != stet.Never {
		d.ExecutionTimeout = c.Policy.Execution.Seconds()
	}
	if c.Key.Pattern != nil {
		d.Key.Pattern = c.Key.Pattern.String()
	}
	if c.FailOpen {
		d.FailMode = "open"
	}
	if c.Policy.FromCreation {
		d.TTL.From = "creation"
	}
	if c.Policy.KeepExpired > 0 {
		d.TTL.OnExpired, d.TTL.KeepExpired = "reject", c.Policy.KeepExpired.Seconds()
	}
	return d
}

// statuses are those of the layer's own answers, by their codes.
func statuses(c *stethttp.Config) map[string]int {
	all := map[string]int{}
	for _, code := range problems.Codes() {
		if p := stethttp.NewProblem(stethttp.Code(code), ""); p.Status != 0 { // else it is the admin API's
			all[code] = p.Status
		}
	}
	if c.Status.Mismatch != 0 {
		all[string(stethttp.KeyReused)] = c.Status.Mismatch
	}
	if c.Status.InvalidKey != 0 {
		all[string(stethttp.InvalidKey)] = c.Status.InvalidKey
	}
	if c.Waiting == stethttp.Accepted {
		all[string(stethttp.InProgress)] = http.StatusAccepted
	}
	return all
}
