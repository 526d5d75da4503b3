package reconcile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// A provider is its functions and a row: notices of another form go through all that those of
// Standard Webhooks go through.
func TestAnotherProvider(t *testing.T) {
	signed := time.Now()
	providers["plain"] = provider{
		Verify: func(h http.Header) (signature, bool) {
			mark := h.Get("Signed-With")
			return signature{h.Get("Number"), signed, func(key, body []byte) bool { return string(key) == mark }}, mark != ""
		},
		Decode: func(body []byte) (*notice, string) {
			scope, rest, ok := bytes.Cut(body, []byte("/"))
			key, fence, _ := bytes.Cut(rest, []byte("/"))
			if !ok {
				return nil, "The notice names no record."
			}
			return &notice{Scope: string(scope), Key: string(key), Outcome: "not-executed", Fence: json.Number(fence)}, ""
		},
		Secret: func(text string) ([]byte, error) {
			if text == "" {
				return nil, errors.New("empty")
			}
			return []byte(text), nil
		},
	}
	t.Cleanup(func() { delete(providers, "plain") })
	w, hook := onStore(t, stores["memory"])
	hook.Provider, hook.Secrets = "plain", []string{"pear", "apple"}
	if err := hook.Validate(); err != nil {
		t.Fatal(err)
	}
	send := func(number, mark, body string) string {
		r := httptest.NewRequest(http.MethodPost, "/hooks/reconcile", strings.NewReader(body))
		r.Header.Set("Number", number)
		r.Header.Set("Signed-With", mark)
		a := httptest.NewRecorder()
		hook.ServeHTTP(a, r)
		return toldBy(t, a)
	}
	r := w.state(0)
	known := fmt.Sprint("s/k0/", r.Fence())
	for _, c := range []struct{ number, mark, body, want string }{
		{"1", "", "s/k0", "401 unauthenticated"},
		{"1", "plum", "s/k0", "401 unauthenticated"},
		{"1", "apple", "s", "400 invalid-notice"},
		{"1", "apple", "s/other/1", "404 not-found"},
		{"1", "apple", known, "200 resolved"},
		{"1", "apple", known, "200 known"},
	} {
		if got := send(c.number, c.mark, c.body); got != c.want {
			t.Errorf("%q by %q: %s, want %s", c.body, c.mark, got, c.want)
		}
	}
	signed = signed.Add(-6 * time.Minute)
	if got := send("2", "apple", "s/k0"); got != "401 unauthenticated" {
		t.Errorf("an old notice: %s", got)
	}
	w.begin(0, stet.Execute)
}

func TestProvidersThatAreNone(t *testing.T) {
	w, hook := onStore(t, stores["memory"])
	hook.Provider = "smoke"
	if err := hook.Validate(); err == nil || !strings.Contains(err.Error(), "use one of standard-webhooks") {
		t.Error(err)
	}
	if a := notify(hook, `{"scope":"s","key":"k0","outcome":"not-executed","fence":1}`, secret, time.Now()); toldBy(t, a) != "401 unauthenticated" {
		t.Error(toldBy(t, a))
	}
	w.begin(0, stet.Unresolved)
}

// Whatever the provider: a notice without a signature is none, and a secret that cannot be used is
// refused without being shown.
func TestEveryProviderRefuses(t *testing.T) {
	for name, p := range providers {
		if _, ok := p.Verify(http.Header{}); ok {
			t.Errorf("%s: a notice without headers is signed", name)
		}
		for _, text := range []string{"", "hunter2"} {
			if _, err := p.Secret(text); err == nil || text != "" && strings.Contains(err.Error(), text) {
				t.Errorf("%s: the secret %q: %v", name, text, err)
			}
		}
		if _, problem := p.Decode([]byte("hunter2")); problem == "" || strings.Contains(problem, "hunter2") {
			t.Errorf("%s: a body that is no notice: %q", name, problem)
		}
	}
}
