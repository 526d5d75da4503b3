package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
)

// A table of words by numbers is read, shown and refused as other settings are.
func TestTables(t *testing.T) {
	load := func(text string) (*Config, error) {
		return Load(write(t, "upstream: http://127.0.0.1:3000\n"+text))
	}
	c, err := load("policy: { status_outcome: { 503: not-executed, 502: unknown, 404: completed } }\nroutes: [{ match: POST /a, policy: { status_outcome: {} } }]\n")
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]stet.State{404: stet.Completed, 502: stet.Unknown, 503: stet.Retryable}
	if have := c.HTTP(nil).StatusOutcome; !reflect.DeepEqual(have, want) {
		t.Errorf("%v", have)
	}
	if have := c.RouteHTTP(0, nil).StatusOutcome; have == nil || len(have) != 0 {
		t.Errorf("a route's empty table is %v", have)
	}
	var shown strings.Builder
	if err := c.Show(&shown, false); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"status_outcome: {404: completed, 502: unknown, 503: not-executed}", "status_outcome: {}"} {
		if !strings.Contains(shown.String(), line) {
			t.Errorf("%s is not shown:\n%s", line, shown.String())
		}
	}
	if c, err = load(""); err != nil || c.HTTP(nil).StatusOutcome != nil {
		t.Errorf("what is not given is %v, %v", c.HTTP(nil).StatusOutcome, err)
	}
	if _, err := load("policy: { trust_header: X Api }\n"); err == nil || !strings.Contains(err.Error(), "stet.yaml:2:25: policy.trust_header: ") {
		t.Errorf("a header of no name: %v", err)
	}
	for text, says := range map[string]string{
		"{ 502: unsure }":                "policy.status_outcome.502: \"unsure\" is not one of completed, unknown, not-executed",
		"{ 99: unknown }":                "policy.status_outcome.99: 99 is too little: at least 200",
		"{ 600: unknown }":               "600 is too much",
		"{ 5xx: unknown }":               "\"5xx\" is not a whole number",
		"{ 502: unknown, 502: unknown }": "the key is given twice",
		"[502]":                          "want numbers with words, such as {502: unknown, 503: unknown, 504: unknown}, not a list",
		"{ 502: [unknown] }":             "want one of completed, unknown, not-executed, not a list",
		"{ 502: }":                       "has no value",
	} {
		if _, err := load("policy: { status_outcome: " + text + " }\n"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", text, err, says)
		}
	}
}
