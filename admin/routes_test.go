package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// Every route asks for its role, and every change for JSON from its own origin: none is reached by
// another way.
func TestRoutesAreGuarded(t *testing.T) {
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	there := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h := New(e, Config{
		Config:  operate.Config{Jobs: operate.NewJobs(), Figures: func(context.Context) operate.Figures { return operate.Figures{} }},
		Webhook: there, Metrics: there, Policy: func() Policy { return Policy{} }, Settings: func() []Setting { return nil },
		Tokens: []Token{NewToken("v", "viewer", operate.Viewer), NewToken("o", "operator", operate.Operator), NewToken("a", "admin", operate.Admin)}})
	ask := func(rt route, path, token string, change func(r *http.Request)) int {
		r := httptest.NewRequest(rt.method, "http://localhost"+path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if change != nil {
			change(r)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	place := regexp.MustCompile(`\{\w+\}`)
	for _, rt := range routes {
		if rt.method == "" {
			continue
		}
		for _, path := range []string{rt.path, strings.Replace(rt.path, byKey, byID, 1)} {
			t.Run(rt.method+" "+path, func(t *testing.T) {
				path := place.ReplaceAllString(path, "1")
				is := func(what string, got, want int) {
					t.Helper()
					if got != want {
						t.Errorf("%s: %d, want %d", what, got, want)
					}
				}
				if rt.role == anyone {
					if got := ask(rt, path, "", nil); got == 401 || got == 403 {
						t.Errorf("without a token: %d", got)
					}
					return
				}
				is("without a token", ask(rt, path, "", nil), 401)
				is("a name that anybody could point here", ask(rt, path, "admin", func(r *http.Request) { r.Host = "evil.example" }), 403)
				for role, token := range []string{"viewer", "operator", "admin"} {
					if got := ask(rt, path, token, nil); (got == 403) != (operate.Role(role) < rt.role) {
						t.Errorf("as %s: %d", token, got)
					}
				}
				if rt.method == http.MethodGet {
					return
				}
				is("another origin", ask(rt, path, "admin", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }), 403)
				if rt.method == http.MethodPost {
					is("no JSON", ask(rt, path, "admin", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }), 415)
					is("a query", ask(rt, path+"?reason=x", "admin", nil), 400)
				}
			})
		}
	}
}

// The package's documentation has every route with its role, in the order of the table, and no
// other.
func TestRoutesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile(`(?m)^//\t(GET|POST|DELETE) +(\S+) +(\S+)`).FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, strings.Join(m[1:], " "))
	}
	for _, rt := range routes {
		role := rt.role.String()
		if rt.role == anyone {
			role = "-"
		}
		if rt.method == "" {
			continue
		}
		if want := fmt.Sprint(rt.method, " ", rt.path, " ", role); len(documented) == 0 || documented[0] != want {
			t.Fatalf("doc.go lacks, or has at another place: %s", want)
		}
		documented = documented[1:]
	}
	if len(documented) > 0 {
		t.Errorf("doc.go has routes that are none: %q", documented)
	}
}
