package stethttp_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stet-dev/stet/stethttp"
)

// TestProblemsAreWhatTheContractSays holds docs/http.md against the code: every code has a row, and
// every row is true.
func TestProblemsAreWhatTheContractSays(t *testing.T) {
	doc, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| (`[a-z-]+`(?:, `[a-z-]+`)*) \\| (\\d+)[^|]*\\|[^|]*\\| (yes|no) \\| ?([a-z]*) ?\\|$")
	seen := map[stethttp.Code]bool{}
	for _, m := range row.FindAllStringSubmatch(string(doc), -1) {
		for _, name := range strings.Split(m[1], ", ") {
			code := stethttp.Code(strings.Trim(name, "`"))
			seen[code] = true
			p := stethttp.NewProblem(code, stethttp.DefaultProblemBase)
			retryable := map[bool]string{true: "yes", false: "no"}[p.Retryable]
			if got := json.Number(m[2]); got.String() != json.Number(itoa(p.Status)).String() || retryable != m[3] || p.KeyAction != m[4] {
				t.Errorf("%s: the contract says %s, retryable %s, %q; the code %d, %s, %q", code, m[2], m[3], m[4], p.Status, retryable, p.KeyAction)
			}
		}
	}
	for _, code := range stethttp.Codes() {
		if !seen[code] {
			t.Errorf("docs/http.md has no row for %s", code)
		}
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// A problem needs no request to be an answer.
func TestProblemWithoutRequest(t *testing.T) {
	w := httptest.NewRecorder()
	stethttp.NewProblem(stethttp.BadFraming, "").ServeHTTP(w, nil)
	if w.Code != 400 || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// TestProblemDocument checks the members of RFC 9457 and ours, and what travels as a header.
func TestProblemDocument(t *testing.T) {
	for _, code := range stethttp.Codes() {
		p := stethttp.NewProblem(code, stethttp.DefaultProblemBase).After(7e9)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest("POST", "/", nil))
		var doc map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			t.Fatalf("%s: %v", code, err)
		}
		want := stethttp.DefaultProblemBase + string(code)
		switch {
		case doc["type"] != want || doc["code"] != string(code) || doc["status"] != float64(w.Code) || doc["retry_after"] != 7.0:
			t.Errorf("%s: %v", code, doc)
		case doc["title"] == "" || doc["detail"] == "" || w.Header().Get("Content-Type") != stethttp.ProblemMediaType:
			t.Errorf("%s: %v, %v", code, doc, w.Header())
		case w.Header().Get("Link") != "<"+want+`>; rel="describedby"` || w.Header().Get("Retry-After") != "7" || w.Header().Get("Cache-Control") != "no-store":
			t.Errorf("%s: %v", code, w.Header())
		case (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != ""):
			t.Errorf("%s: WWW-Authenticate %q", code, w.Header().Get("WWW-Authenticate"))
		}
	}
}
