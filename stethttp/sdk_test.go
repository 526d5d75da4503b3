package stethttp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// sdk is one official client of Stripe: when it sends a request again by itself, and which error
// its caller is given at last. Both clients send every try of a call with the same key, and each
// tries three times by default.
type sdk struct {
	name    string
	retries func(heard) bool
	raises  func(heard) raised
}

// raised is what a caller of a client finds in its hands. The clients name their classes
// differently.
type raised string

const (
	success        raised = "no error"
	apiError       raised = "API error"
	invalidRequest raised = "invalid request"
	keyMisused     raised = "idempotency error"
	authentication raised = "authentication error"
	permission     raised = "permission error"
	rateLimit      raised = "rate limit error"
	cardError      raised = "card error"
	untyped        raised = "error without a type"
)

// saysNotCharged: these classes tell a program that the request was refused for what it is, and
// that nothing came of it.
func (r raised) saysNotCharged() bool {
	return r == invalidRequest || r == cardError || r == authentication || r == permission
}

// goRaises is what both of stripe-go's APIs make of an answer.
func goRaises(a heard) raised {
	switch {
	case a.StatusCode < 400:
		return success
	case a.object == nil:
		return untyped
	}
	return typed(a.object.Type)
}

// heard is an answer as a client hears it.
type heard struct {
	*http.Response
	object *struct{ Type, Code, Message string } // the body's member error
}

func hear(t *testing.T, res *http.Response) heard {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	h := heard{Response: res}
	var doc struct {
		Error *struct{ Type, Code, Message string }
	}
	if json.Unmarshal(body, &doc) == nil {
		h.object = doc.Error
	}
	return h
}

var sdks = []sdk{
	{
		// stripe-go v82.5.1, API v1: BackendImplementation.shouldRetry, Error.canRetry and
		// ResponseToError. An answer of 400 and above that has an error object is sent again only
		// where it is a 429 with the code lock_timeout: Stripe-Should-Retry is not looked at. One
		// without an error object is taken for an accident on the way. Below 400 the body is the
		// result, whatever is in it, and only the header has it sent again.
		name: "stripe-go v1",
		retries: func(a heard) bool {
			switch {
			case a.StatusCode < 400:
				return a.Header.Get("Stripe-Should-Retry") == "true"
			case a.object == nil:
				return true
			}
			return a.StatusCode == 429 && a.object.Code == "lock_timeout"
		},
		raises: goRaises,
	},
	{
		// stripe-go v82.5.1, API v2: responseToErrorV2 and V2RawError.canRetry. No error object is
		// ever sent again, and its type is a string that the caller compares.
		name: "stripe-go v2",
		retries: func(a heard) bool {
			if a.StatusCode < 400 {
				return a.Header.Get("Stripe-Should-Retry") == "true"
			}
			return a.object == nil
		},
		raises: goRaises,
	},
	{
		// stripe-node 23.1.0, API v1: RequestSender._shouldRetry and generateV1Error. The header
		// decides; without it, 409 and what is 500 and above are sent again. The class comes from
		// the status.
		name: "stripe-node v1", retries: nodeRetries, raises: nodeRaises,
	},
	{
		// stripe-node 23.1.0, API v2: generateV2Error asks the type first, and then as v1 does.
		name: "stripe-node v2", retries: nodeRetries,
		raises: func(a heard) raised {
			switch {
			case a.object == nil:
				return nodeRaises(a)
			case a.object.Type == "idempotency_error":
				return keyMisused
			case a.object.Type == "rate_limit":
				return rateLimit
			case a.object.Code == "invalid_fields":
				return invalidRequest
			}
			return nodeRaises(a)
		},
	},
}

// typed is stripe-go's table of types.
func typed(name string) raised {
	switch name {
	case "api_error":
		return apiError
	case "card_error":
		return cardError
	case "idempotency_error":
		return keyMisused
	case "invalid_request_error":
		return invalidRequest
	}
	return untyped
}

func nodeRetries(a heard) bool {
	if v := a.Header.Get("Stripe-Should-Retry"); v == "true" || v == "false" {
		return v == "true"
	}
	return a.StatusCode == 409 || a.StatusCode >= 500
}

func nodeRaises(a heard) raised {
	switch {
	case a.object == nil:
		return success // of a body that is JSON; the others are API errors
	case a.StatusCode == 429, a.StatusCode == 400 && a.object.Code == "rate_limit":
		return rateLimit
	case (a.StatusCode == 400 || a.StatusCode == 404) && a.object.Type == "idempotency_error":
		return keyMisused
	case a.StatusCode == 400, a.StatusCode == 404:
		return invalidRequest
	case a.StatusCode == 401:
		return authentication
	case a.StatusCode == 402:
		return cardError
	case a.StatusCode == 403:
		return permission
	}
	return apiError
}

var stripeProfiles = []string{"stripe", "stripe-v2"}

// own is what a profile answers for a code.
func own(t *testing.T, profile string, code stethttp.Code) *http.Response {
	t.Helper()
	g := guardOf(t, profile)
	c := g.Config()
	p := stethttp.NewProblem(code, c.ProblemBase)
	switch code {
	case stethttp.KeyReused:
		p.Status = orElse(c.Status.Mismatch, p.Status)
	case stethttp.InvalidKey:
		p.Status = orElse(c.Status.InvalidKey, p.Status)
	}
	w := httptest.NewRecorder()
	g.Refuse(w, httptest.NewRequest("POST", "/", nil), p)
	return w.Result()
}

func orElse(v, d int) int {
	if v != 0 {
		return v
	}
	return d
}

// guardOf guards as a profile does.
func guardOf(t *testing.T, profile string) *stethttp.Guard {
	t.Helper()
	c, err := stethttp.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	g, err := stethttp.New(newEngine(), stethttp.SingleTenant, c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestOwnAnswersInStripesClients: what the layer says by itself is sent again exactly where it can
// be, and never taken for "not charged" where the first request of the key may have had its effect.
func TestOwnAnswersInStripesClients(t *testing.T) { // C17
	done := map[stethttp.Code]bool{ // besides all that may be sent again: the effect is there, or may be
		stethttp.ResultNotRetained: true, stethttp.ExpiredKey: true, stethttp.RequestTooOld: true,
	}
	for _, profile := range stripeProfiles {
		for _, code := range stethttp.Codes() {
			a, p := hear(t, own(t, profile, code)), stethttp.NewProblem(code, "")
			if a.object == nil || a.object.Message == "" || a.StatusCode < 400 {
				t.Fatalf("%s, %s: %d %+v", profile, code, a.StatusCode, a.object)
			}
			if got := a.Header.Get("Stripe-Should-Retry"); got != fmt.Sprint(p.Retryable) {
				t.Errorf("%s, %s: Stripe-Should-Retry is %q, retryable %v", profile, code, got, p.Retryable)
			}
			if !strings.HasPrefix(a.Header.Get("Request-Id"), "req_") {
				t.Errorf("%s, %s has no Request-Id", profile, code)
			}
			if p.Status >= 500 && a.object.Type != "api_error" {
				t.Errorf("%s, %s: a failure of %d is of type %s", profile, code, p.Status, a.object.Type)
			}
			for _, s := range sdks {
				is := s.raises(a)
				switch node := strings.HasPrefix(s.name, "stripe-node"); {
				case is == success || is == untyped:
					t.Errorf("%s, %s: %s has %s", profile, code, s.name, is)
				case (p.Retryable || done[code]) && is.saysNotCharged():
					t.Errorf("%s, %s: %s has %s: its caller takes an effect for none", profile, code, s.name, is)
				case node && s.retries(a) != p.Retryable:
					t.Errorf("%s, %s: %s sends it again: %v", profile, code, s.name, s.retries(a))
				case !node && s.retries(a): // why the profiles wait: this client does not ask twice
					t.Errorf("%s, %s: %s sends it again", profile, code, s.name)
				}
			}
		}
	}
}

// TestStripesWords: the answers that Stripe gives as well have its types and codes, and so the
// classes that programs catch.
func TestStripesWords(t *testing.T) { // C17, PF-01
	for code, want := range map[stethttp.Code]struct {
		status      int
		kind, code  string
		golang, nod raised
	}{
		stethttp.KeyReused:        {400, "idempotency_error", "", keyMisused, keyMisused},
		stethttp.InvalidKey:       {400, "idempotency_error", "", keyMisused, keyMisused},
		stethttp.InProgress:       {409, "idempotency_error", "idempotency_key_in_use", keyMisused, apiError},
		stethttp.Unauthenticated:  {401, "invalid_request_error", "unauthenticated", invalidRequest, authentication},
		stethttp.RateLimited:      {429, "api_error", "rate_limit", apiError, rateLimit},
		stethttp.KeyQuotaExceeded: {429, "api_error", "rate_limit", apiError, rateLimit},
		stethttp.MissingKey:       {400, "invalid_request_error", "missing-key", invalidRequest, invalidRequest},
		stethttp.OutcomeUnknown:   {409, "api_error", "outcome-unknown", apiError, apiError},
		stethttp.ExecutionTimeout: {504, "api_error", "execution-timeout", apiError, apiError},
		stethttp.StoreUnavailable: {503, "api_error", "store-unavailable", apiError, apiError},
		stethttp.UpstreamFailed:   {502, "api_error", "upstream-failed", apiError, apiError},
	} {
		for _, profile := range stripeProfiles {
			a := hear(t, own(t, profile, code))
			if a.StatusCode != want.status || a.object.Type != want.kind || a.object.Code != want.code {
				t.Errorf("%s, %s: %d %+v, want %+v", profile, code, a.StatusCode, a.object, want)
			}
			if got := sdks[0].raises(a); got != want.golang {
				t.Errorf("%s, %s: %s has %s, want %s", profile, code, sdks[0].name, got, want.golang)
			}
			if got := sdks[2].raises(a); got != want.nod {
				t.Errorf("%s, %s: %s has %s, want %s", profile, code, sdks[2].name, got, want.nod)
			}
		}
	}
}

// call is one call of a client: it tries up to three times, with one key.
func (s sdk) call(r *rig, key string) (last heard, tries int) {
	r.t.Helper()
	for tries = 1; ; tries++ {
		last = hear(r.t, r.post(key, `{"amount":1}`))
		if tries == 3 || !s.retries(last) {
			return last, tries
		}
		time.Sleep(500 * time.Millisecond) // both clients' first pause, in virtual time
	}
}

// profiled is a rig with a profile, and what else is set.
func profiled(t *testing.T, profile string, set func(*stethttp.Config), h http.HandlerFunc) *rig {
	t.Helper()
	c, err := stethttp.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	if set != nil {
		set(&c)
	}
	return newRig(t, c, h)
}

// failing answers its first run with a status, and those after with 201.
func failing(status int) func(w http.ResponseWriter, r *http.Request) {
	runs := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		if runs++; runs > 1 {
			w.WriteHeader(http.StatusCreated)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, `{"error":{"type":"api_error","message":"it broke"}}`)
	}
}

// TestKeptFailuresAreNotAskedFor: a failure that is the result is told at once, and to retries as
// what it is. Where it is released, the next try runs.
func TestKeptFailuresAreNotAskedFor(t *testing.T) { // C17
	for _, s := range sdks {
		for _, status := range []int{409, 500, 503} {
			synctest.Test(t, func(t *testing.T) {
				r := profiled(t, "stripe", nil, failing(status))
				first, tries := s.call(r, "k")
				if tries != 1 || first.StatusCode != status || first.Header.Get("Stripe-Should-Retry") != "false" {
					t.Errorf("%s, %d: after %d tries %d %v", s.name, status, tries, first.StatusCode, first.Header)
				}
				again, tries := s.call(r, "k")
				h := again.Header
				if tries != 1 || again.StatusCode != status || h.Get("Stripe-Should-Retry") != "false" ||
					h.Get("Idempotent-Replayed") != "true" {
					t.Errorf("%s, %d, replayed: after %d tries %d %v", s.name, status, tries, again.StatusCode, h)
				}
				if id := first.Header.Get("Request-Id"); id == "" || h.Get("Original-Request") != id || h.Get("Request-Id") == id {
					t.Errorf("%s, %d: the first is %q, the replay says %v", s.name, status, id, h)
				}
				r.wantRuns(1)
			})
		}
		synctest.Test(t, func(t *testing.T) {
			r := profiled(t, "stripe-v2", nil, failing(500))
			a, _ := s.call(r, "k")
			if a.StatusCode == 500 && a.Header.Get("Stripe-Should-Retry") == "false" {
				t.Errorf("%s: %v: a retry would run", s.name, a.Header)
			}
			if a, _ = s.call(r, "k"); a.StatusCode != 201 || a.Header["Stripe-Should-Retry"] != nil {
				t.Errorf("%s: %d %v", s.name, a.StatusCode, a.Header)
			}
			r.wantRuns(2)
		})
	}
}

// TestStaleAdviceIsNotReplayed: that a request should be sent again was true once.
func TestStaleAdviceIsNotReplayed(t *testing.T) { // C17
	for _, status := range []int{201, 500} {
		r := profiled(t, "stripe", nil, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Stripe-Should-Retry", "true")
			w.WriteHeader(status)
		})
		if first := r.post("k", `{}`); first.Header.Get("Stripe-Should-Retry") != "true" {
			t.Errorf("%d: the handler's own word is gone: %v", status, first.Header)
		}
		if again := hear(t, r.post("k", `{}`)); nodeRetries(again) {
			t.Errorf("%d: a replay is to be sent again: %v", status, again.Header)
		}
	}
}

// TestStripesClientsWaitForTheFirst: stripe-go cannot ask for a request that runs, so it is
// answered when that has ended.
func TestStripesClientsWaitForTheFirst(t *testing.T) { // C17
	for _, profile := range stripeProfiles {
		for _, s := range sdks {
			synctest.Test(t, func(t *testing.T) {
				r := profiled(t, profile, nil, func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(20 * time.Second) // virtual, under wait_timeout_s
					w.WriteHeader(http.StatusCreated)
				})
				done := make(chan *http.Response)
				go func() { done <- r.post("k", `{"amount":1}`) }()
				time.Sleep(time.Second)
				a, tries := s.call(r, "k")
				if a.StatusCode != 201 || tries != 1 || a.Header.Get("Idempotent-Replayed") != "true" {
					t.Errorf("%s, %s: after %d tries %d %+v", profile, s.name, tries, a.StatusCode, a.object)
				}
				<-done
				r.wantRuns(1)
			})
		}
	}
}

// TestTimeoutsInStripesClients: no client is told that a run that took too long did not charge,
// and its late answer names the request that its client was told of.
func TestTimeoutsInStripesClients(t *testing.T) { // C17
	for _, s := range sdks {
		synctest.Test(t, func(t *testing.T) {
			finish := make(chan struct{})
			short := func(c *stethttp.Config) { c.Policy.Execution = time.Second }
			r := profiled(t, "stripe", short, func(w http.ResponseWriter, _ *http.Request) {
				<-finish
				w.WriteHeader(http.StatusCreated)
			})
			first := make(chan heard)
			go func() { first <- hear(t, r.post("k", `{"amount":1}`)) }()
			time.Sleep(2 * time.Second)
			again, _ := s.call(r, "k")
			close(finish)
			timeout := <-first
			for _, a := range []heard{timeout, again} {
				if is := s.raises(a); is != apiError {
					t.Errorf("%s: %d is %s", s.name, a.StatusCode, is)
				}
			}
			synctest.Wait()
			if a, _ := s.call(r, "k"); a.StatusCode != 201 || a.Header.Get("Original-Request") != timeout.Header.Get("Request-Id") {
				t.Errorf("%s: %d %v, the first was %s", s.name, a.StatusCode, a.Header, timeout.Header.Get("Request-Id"))
			}
			r.wantRuns(1)
		})
	}
}

// TestRequestsHaveNames: every keyed answer has a Request-Id, and names the request that ran where
// there is a result.
func TestRequestsHaveNames(t *testing.T) { // C17
	r := profiled(t, "stripe", func(c *stethttp.Config) { c.MaxResponse = 8 }, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Idempotency-Key") == "large" {
			fmt.Fprint(w, "more than eight bytes")
		}
	})
	first := r.post("k", `{}`)
	id := first.Header.Get("Request-Id")
	if id == "" || first.Header.Get("Original-Request") != id {
		t.Errorf("the first answer: %v", first.Header)
	}
	other := r.post("k", `{"another":1}`)
	if other.StatusCode != 400 || other.Header.Get("Original-Request") != id || other.Header.Get("Request-Id") == id {
		t.Errorf("%s, told of a mismatch: %d %v", id, other.StatusCode, other.Header)
	}
	large := r.post("large", `{}`)
	if id := large.Header.Get("Request-Id"); id == "" || large.Header.Get("Original-Request") != id {
		t.Errorf("an answer that is passed on while it is made: %v", large.Header)
	}
	again := hear(t, r.post("large", `{}`))
	if again.StatusCode != 409 || again.object.Code != string(stethttp.ResultNotRetained) || again.object.Type != "api_error" {
		t.Errorf("what was done and not kept: %d %+v", again.StatusCode, again.object)
	}
	seen := map[string]bool{}
	for range 20 {
		w := r.post("k", `{}`)
		if id := w.Header.Get("Request-Id"); id == "" || seen[id] {
			t.Fatalf("Request-Id %q, twice: %v", id, seen[id])
		}
		seen[w.Header.Get("Request-Id")] = true
	}
}

// TestShadowNamesNoRequest: a shadow changes nothing that a client can see.
func TestShadowNamesNoRequest(t *testing.T) {
	r := profiled(t, "stripe", func(c *stethttp.Config) { c.Mode = stethttp.ModeShadow }, created)
	if w := r.post("k", `{}`); w.Header["Request-Id"] != nil || w.Header["Original-Request"] != nil {
		t.Errorf("%v", w.Header)
	}
}

// TestAcceptedIsNoAnswerForStripesClients: stripe-go takes what is below 400 for the result, here
// an empty one.
func TestAcceptedIsNoAnswerForStripesClients(t *testing.T) { // C17
	c, err := stethttp.Profile("stripe")
	if err != nil {
		t.Fatal(err)
	}
	c.Waiting = stethttp.Accepted
	if _, err := stethttp.New(newEngine(), stethttp.SingleTenant, c); err == nil || !strings.Contains(err.Error(), "Waiting") {
		t.Errorf("202 in Stripe's form: %v", err)
	}
	c.Waiting, c.Policy = stethttp.NoWait, stet.Policy{}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
