package blackbox

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// problem is a row of the problem table: what the default profile answers.
type problem struct {
	status    int
	retryable bool
	action    string // key_action; "" where there is none
	wait      bool   // a Retry-After belongs to it
}

var problems = map[string]problem{
	"missing-key":          {status: 400},
	"invalid-key":          {status: 400, action: "rotate"},
	"unauthenticated":      {status: 401, action: "reuse"},
	"key-reused":           {status: 422, action: "stop"},
	"in-progress":          {status: 409, retryable: true, action: "reuse", wait: true},
	"outcome-unknown":      {status: 409, retryable: true, action: "reuse", wait: true},
	"result-not-retained":  {status: 409, action: "stop"},
	"expired-key":          {status: 422, action: "rotate"},
	"request-too-old":      {status: 412, action: "stop"},
	"payload-too-large":    {status: 413, action: "stop"},
	"request-timeout":      {status: 408, retryable: true, action: "reuse"},
	"too-early":            {status: 425, retryable: true, action: "reuse"},
	"key-quota-exceeded":   {status: 429, retryable: true, action: "reuse", wait: true},
	"rate-limited":         {status: 429, retryable: true, action: "reuse", wait: true},
	"store-unavailable":    {status: 503, retryable: true, action: "reuse", wait: true},
	"execution-timeout":    {status: 504, retryable: true, action: "reuse"},
	"upstream-unreachable": {status: 502, retryable: true, action: "reuse"},
	"upstream-failed":      {status: 502, retryable: true, action: "reuse"},
	"route-not-covered":    {status: 400, action: "stop"},
	"invalid-target":       {status: 400, action: "stop"},
	"invalid-method":       {status: 400, action: "stop"},
	"bad-framing":          {status: 400, action: "stop"},
	"loop":                 {status: 508, action: "stop"},
}

// document is a problem document.
type document struct {
	Type           string
	Title          string
	Status         int
	Detail         string
	Code           string
	Retryable      *bool
	KeyAction      string `json:"key_action"`
	RetryAfter     *int   `json:"retry_after"`
	OriginalStatus int    `json:"original_status"`
}

// retryAfterMost is the longest Retry-After with the default policy.
const retryAfterMost = 30

// Problem demands the problem document of a code, member by member, with the table's status or the
// given one.
func (a *Answer) Problem(code string, status ...int) document {
	a.c.Helper()
	want, ok := problems[code]
	if !ok {
		a.c.Fatalf("no such problem: %s", code)
	}
	if len(status) > 0 {
		want.status = status[0]
	}
	a.Is(want.status).Unmarked()
	if a.req.method == "HEAD" {
		return document{}
	}
	d := a.document()
	switch {
	case d.Code != code:
		a.fail("code %q, want %q", d.Code, code)
	case d.Status != want.status:
		a.fail("the member status is %d, the status is %d", d.Status, want.status)
	case d.Retryable == nil || *d.Retryable != want.retryable:
		a.fail("retryable has to be %t", want.retryable)
	case d.KeyAction != want.action:
		a.fail("key_action %q, want %q", d.KeyAction, want.action)
	case d.Title == "" || d.Detail == "":
		a.fail("title and detail must not be empty")
	}
	a.described(d)
	a.discreet()
	if want.wait {
		n := a.RetryAfter(retryAfterMost)
		if d.RetryAfter == nil || *d.RetryAfter != n {
			a.fail("retry_after has to be Retry-After, %d", n)
		}
	} else if d.RetryAfter != nil && a.Header.Get("Retry-After") == "" {
		a.fail("retry_after without Retry-After")
	}
	return d
}

// document reads a problem document and demands its media type.
func (a *Answer) document() (d document) {
	a.c.Helper()
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		a.fail("Content-Type %q, want application/problem+json", got)
	}
	dec := json.NewDecoder(bytes.NewReader(a.Body))
	if err := dec.Decode(&d); err != nil {
		a.fail("the problem document is no JSON: %v", err)
	}
	return d
}

// described demands an absolute type, and a Link with rel="describedby" to the same address.
func (a *Answer) described(d document) {
	a.c.Helper()
	u, err := url.Parse(d.Type)
	if err != nil || !u.IsAbs() || u.Host == "" || !strings.HasSuffix(u.Path, "/"+d.Code) {
		a.fail("type %q has to be an absolute URI that ends in the code", d.Type)
	}
	if !slices.ContainsFunc(a.Header["Link"], func(l string) bool {
		return strings.HasPrefix(l, "<"+d.Type+">") && strings.Contains(l, `rel="describedby"`)
	}) {
		a.fail(`want Link: <%s>; rel="describedby"`, d.Type)
	}
}

// discreet demands that a problem document quotes neither the key nor the body.
func (a *Answer) discreet() {
	a.c.Helper()
	for _, k := range a.req.keys {
		if k = strings.Trim(k, `"`); len(k) > 4 && bytes.Contains(a.Body, []byte(k)) {
			a.fail("the problem document quotes the key")
		}
	}
	if len(a.req.text) > 4 && bytes.Contains(a.Body, []byte(a.req.text)) {
		a.fail("the problem document quotes the request")
	}
}
