package config

import (
	"strings"
	"testing"
)

// D07: what no request can match is an error with its place and how it was meant.
func TestUnreachableRoutes(t *testing.T) {
	for match, want := range map[string]string{
		"POST v1/pay":                   `"v1" is read as a host, since a path begins with a slash: write /v1/pay; a host is written in full, such as v1.example.com`,
		"v1/pay":                        `"v1" is read as a host`,
		"POST /v1/*":                    `a star stands for itself: write /v1/{rest...} for everything below, or %2A for a star`,
		"/v1/*/pay":                     `a star stands for itself: write {name} for one segment, or %2A for a star`,
		"/v1/pay*":                      `a star stands for itself: write /v1/{rest...} for everything below`,
		"/pay/:id":                      `a colon stands for itself: write {id} for one segment, or %3A for a colon`,
		"/:id/pay":                      `write {id} for one segment`,
		"post /v1/pay":                  `methods are case-sensitive, and no client sends post: write POST`,
		"Patch /v1/pay":                 `write PATCH`,
		"PSOT /v1/pay":                  `there is no method PSOT; did you mean POST?`,
		"CHARGE /v1/pay":                `there is no method CHARGE; if clients send it, name it in policy.enabled_methods`,
		"CONNECT /v1/pay":               `CONNECT asks for a tunnel`,
		"POST /v1/pay?x=1":              `patterns are of paths, and ?x=1 is no part of one`,
		"/v1/pay#top":                   `patterns are of paths, and #top is no part of one`,
		"POST api.shop:8080/pay":        `hosts are matched without their port: write api.shop/pay`,
		"API.example.com:80/pay":        `hosts are matched without their port: write API.example.com/pay`,
		"a,b.example/pay":               `"a,b.example" is no host`,
		"*.example.com/pay":             `*.example.com stands for no other hosts`,
		"/v1/a%2e%2e/..%2Fb":            `requests for it are refused: `,
		`/v1/a\b`:                       `requests for it are refused: `,
		"/" + strings.Repeat("x", 9000): `requests for it are refused: `,
	} {
		_, err := Load(write(t, "routes:\n- match: '"+match+"'\n"))
		if err == nil || !strings.HasPrefix(err.Error(), "stet.yaml:2:10: routes[0].match: no request matches ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", match, err, want)
		}
	}
	for _, match := range []string{"/", "POST /v1/pay", "POST  /v1/pay/{id}", "/v1/{rest...}", "GET /v1/pay/{$}", "localhost/x", "api.example.com/x/", "[::1]/x",
		"127.0.0.1/x", "PROPFIND /files/", "/v1/%2A/%3Aid", "/v1/projects/a:cancel", "/a%2Fb/{x}/"} {
		if _, err := Load(write(t, "routes:\n- match: '"+match+"'\n")); err != nil {
			t.Errorf("%s: %v", match, err)
		}
	}
}

// D07: a mode on a method that always passes guards nothing.
func TestIdleModes(t *testing.T) {
	for text, want := range map[string]string{
		"routes:\n- { match: GET /v1/pay, mode: required }\n": "stet.yaml:2:31: routes[0].mode: GET is not in enabled_methods, so it always passes: " +
			"add it to policy.enabled_methods here, or take the mode away",
		"policy: { enabled_methods: [POST] }\nroutes:\n- { match: PUT /v1/pay, mode: optional }\n":      "PUT is not in enabled_methods",
		"policy: { enabled_methods: [POST] }\nroutes:\n- { match: PUT /v1/pay, mode: shadow }\n":        "PUT is not in enabled_methods",
		"policy: { enabled_methods: [PSOT], required_methods: [] }\n":                                   "there is no method PSOT; did you mean POST?",
		"routes:\n- { match: GET /v1/pay, mode: off }\n":                                                "",
		"routes:\n- { match: GET /v1/pay, mode: required, policy: { enabled_methods: [GET] } }\n":       "",
		"routes:\n- { match: /v1/pay, mode: required }\n":                                               "",
		"policy: { enabled_methods: [CHARGE] }\nroutes:\n- { match: CHARGE /v1/pay, mode: required }\n": "",
	} {
		_, err := Load(write(t, text))
		if got := errorText(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What is not the gateway's own listener is an upstream, as far as its address tells.
func TestUpstreamsThatAreNotTheGateway(t *testing.T) { // H16
	for _, text := range []string{"upstream: http://127.0.0.1:3000", "upstream: http://api.internal:8080", "upstream: http://10.0.0.7:8080",
		"upstream: http://127.0.0.1:81\nlisten: 127.0.0.2:81", "upstream: http://127.0.0.1\nlisten: ':0'", "upstream: https://127.0.0.1\nlisten: ':80'",
		"scope: { api_key: { header: Authorization } }", "limits: { max_buffered_bytes: 16384 }", "policy: { key: { header: X-Request-Token } }"} {
		load(t, text+"\n")
	}
	for _, text := range []string{"upstream: http://127.0.0.1\nlisten: ':80'", "upstream: https://[::1]\nlisten: '[::]:443'", "upstream: http://0.0.0.0:81\nlisten: 'localhost:81'",
		"upstream: http://api.internal:81\nlisten: 'api.internal:81'"} {
		if _, err := Load(write(t, text+"\n")); err == nil || !strings.Contains(err.Error(), "round in circles") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
