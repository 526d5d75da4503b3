package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
)

// A setting that allows more than the store takes is refused by its name, with what the store takes
// (K08, K18).
func TestSettingsFitTheStore(t *testing.T) {
	mysql := stet.Sizes{Scope: 1024, Key: 1024, Body: 16 << 20, Setting: "the server's max_allowed_packet (16777216)"}
	for name, c := range map[string]struct {
		text string
		most stet.Sizes
		want []string
	}{
		"defaults":                 {"", mysql, nil},
		"defaults and Postgres":    {"", stet.Sizes{Names: 2600}, nil},
		"a store without a bound":  {"policy: { max_response_bytes: 1000000000000, key: { max_len: 60000 } }", stet.Sizes{}, nil},
		"a key":                    {"policy: { key: { max_len: 2000 } }", mysql, []string{"stet.yaml:1:27: policy.key.max_len: it is 2000, and the store takes keys of up to 1024 bytes: lower it"}},
		"a scope":                  {"limits: { max_scope_bytes: 1025 }", mysql, []string{"stet.yaml:1:28: limits.max_scope_bytes: it is 1025, and the store takes scopes of up to 1024 bytes: lower it"}},
		"a key beside its scope":   {"policy: { key: { max_len: 1600 } }", stet.Sizes{Names: 2600}, []string{"policy.key.max_len: it is 1600, and the store takes 2600 bytes of a key and its scope together, whose limits.max_scope_bytes is 1024: lower one of them"}},
		"a response":               {"policy: { max_response_bytes: 16777216 }", mysql, []string{"policy.max_response_bytes: it is 16777216, and the store takes 16777216 bytes of a response together with its header, whose max_header_bytes is 65536: lower it, or raise the server's max_allowed_packet (16777216)"}},
		"a response on one route":  {"routes:\n- match: POST /x\n  policy: { max_response_bytes: 20000000 }", mysql, []string{"stet.yaml:3:33: routes[0].policy.max_response_bytes: it is 20000000"}},
		"a response on each route": {"policy: { max_response_bytes: 20000000 }\nroutes:\n- match: POST /x\n  policy: { wait_policy: wait }", mysql, []string{"stet.yaml:1:31: policy.max_response_bytes"}},
	} {
		err := load(t, c.text+"\n").Fits(c.most)
		found, _ := errors.AsType[Errors](err)
		if len(found) != len(c.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(found[i].Error(), want) {
				t.Errorf("%s: %q, want %q", name, found[i], want)
			}
		}
	}
}
