package config

import (
	"strings"
	"testing"

	"github.com/stet-dev/stet/admin"
)

// What operators are shown is what is in force, with its origin, and no secret of it.
func TestSettings(t *testing.T) {
	c := load(t, "upstream: http://127.0.0.1:3000\nstore: { dsn: 'postgres://stet:hush@db/stet' }\nadmin: { title: 'eu-1 #2' }\n"+
		"console: { trace_url: 'https://traces.example/{trace_id}' }\nroutes:\n  - match: POST /pay\n    mode: required\n")
	of := map[string]admin.Setting{}
	for _, s := range c.Settings([]Change{{Path: "store.dsn", Was: "a", Is: "b"}}) {
		of[s.Path] = s
		if strings.Contains(s.Value, "hush") {
			t.Errorf("%+v", s)
		}
	}
	for path, want := range map[string]admin.Setting{
		"listen":            {Value: ":8080", Origin: "default", Doc: "address that clients connect to; port 0 picks a free one"},
		"admin.title":       {Value: "eu-1 #2"},
		"console.trace_url": {Value: "https://traces.example/{trace_id}"},
		"policy.lease_s":    {Value: "60", Origin: "default", Unit: "s"},
		"replicas":          {Value: "1", Unit: "gateways"},
		"store.dsn":         {Pending: "b"},
		"routes[0].match":   {Value: "POST /pay"},
	} {
		got := of[path]
		if want.Value != "" && got.Value != want.Value || want.Origin != "" && got.Origin != want.Origin || want.Doc != "" && got.Doc != want.Doc ||
			want.Unit != "" && got.Unit != want.Unit || got.Pending != want.Pending || got.Path == "" {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

func TestTitleAndTraces(t *testing.T) {
	for text, want := range map[string]string{
		"admin: { title: " + strings.Repeat("x", 61) + " }":                    "admin.title",
		"console: { trace_url: 'https://traces.example/' }":                    "console.trace_url",
		"console: { trace_url: 'javascript:alert({trace_id})' }":               "console.trace_url",
		"console: { trace_url: 'https://kim:hush@traces.example/{trace_id}' }": "console.trace_url",
	} {
		_, err := Load(write(t, "upstream: http://127.0.0.1:3000\n"+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
