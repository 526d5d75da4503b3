package problems_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stet-dev/stet/docs/problems"
	"github.com/stet-dev/stet/stethttp"
)

var update = flag.Bool("update", false, "write the facts into the pages")

// Every code that a client or an operator can be told has a page, and no other has: the layer's say
// which they are, those of the admin API and of the webhook are read from their source.
func TestEveryCodeHasAPage(t *testing.T) {
	facts := sourceFacts(t, "operate", "Problem", "admin API")
	maps.Copy(facts, sourceFacts(t, "admin", "Problem", "admin API"))
	maps.Copy(facts, sourceFacts(t, "internal/reply", "Refusal", "admin API"))
	for _, c := range layerCodes(t) {
		p := stethttp.NewProblem(c, "")
		if p.Status == 0 {
			t.Errorf("%s is in no row of the table of problems", c)
		}
		retry := "Not to be retried"
		if p.Retryable {
			retry = "To be retried"
		}
		facts[string(c)] = fmt.Sprintf("**%s.** Status %d. %s", p.Title, p.Status, retry)
		if p.KeyAction != "" {
			facts[string(c)] += fmt.Sprintf("; `key_action` is `%s`", p.KeyAction)
		}
		facts[string(c)] += "."
	}
	for code, is := range sourceFacts(t, "reconcile", "Refusal", "webhook") {
		title, _, _ := strings.Cut(is, ".**")
		if facts[code] != "" && !strings.HasPrefix(facts[code], title+".**") {
			t.Errorf("%s has two titles: %s and %s", code, is, facts[code])
		}
		facts[code] = cmp.Or(facts[code], is)
	}
	for code, want := range facts {
		page, ok := problems.Page(code)
		if !ok {
			t.Errorf("%s has no page: write docs/problems/%s.md", code, code)
			continue
		}
		head, rest, _ := strings.Cut(page, "\n\n")
		got, rest, _ := strings.Cut(rest, "\n\n")
		if *update {
			if err := os.WriteFile(code+".md", []byte(head+"\n\n"+want+"\n\n"+rest), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got != want || head != "# "+code {
			t.Errorf("%s.md begins with %q and says\n%s\nwant (go test ./docs/problems -update)\n%s", code, head, got, want)
		}
		if !strings.Contains(rest, "\n## If you send the request\n\n- ") {
			t.Errorf("%s does not tell the client what to do", code)
		}
	}
	for _, code := range problems.Codes() {
		if facts[code] == "" {
			t.Errorf("nothing answers with %s: remove its page", code)
		}
	}
}

// layerCodes finds the codes of package stethttp in its source.
func layerCodes(t *testing.T) (codes []stethttp.Code) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../stethttp/problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			kind, typed := spec.Type.(*ast.Ident)
			value, quoted := spec.Values[0].(*ast.BasicLit)
			if typed && quoted && kind.Name == "Code" {
				code, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				codes = append(codes, stethttp.Code(code))
			}
		}
		return true
	})
	if len(codes) < 20 {
		t.Fatalf("package stethttp has %d codes; how they are written has changed", len(codes))
	}
	return codes
}

// sourceFacts finds the problems in the source of a package, which are of the type kind.
func sourceFacts(t *testing.T, dir, kind, of string) map[string]string {
	t.Helper()
	facts := map[string]string{}
	names, err := filepath.Glob("../../" + dir + "/*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("package %s is not there: %v", dir, err)
	}
	slices.SortStableFunc(names, func(a, b string) int { // what they all share comes first, and says what a code is
		return strings.Compare(strings.TrimPrefix(a, "../../"+dir+"/problem.go"), strings.TrimPrefix(b, "../../"+dir+"/problem.go"))
	})
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			named := lit.Type
			if from, ok := named.(*ast.SelectorExpr); ok { // operate.Problem
				named = from.Sel
			}
			if is, ok := named.(*ast.Ident); !ok || is.Name != kind {
				return true
			}
			member := map[string]string{}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if value, ok := kv.Value.(*ast.BasicLit); ok {
						member[fmt.Sprint(kv.Key)] = value.Value
					}
				}
			}
			code, err := strconv.Unquote(member["Code"])
			if title, err2 := strconv.Unquote(member["Title"]); err == nil && err2 == nil && facts[code] == "" {
				facts[code] = fmt.Sprintf("**%s.** Status %s, of the %s.", title, member["Status"], of)
			}
			return true
		})
	}
	if len(facts) < 3 {
		t.Fatalf("package %s has %d problems; how they are written has changed", dir, len(facts))
	}
	return facts
}

// A code that nothing answers with is one too many.
func TestEveryCodeIsAnswered(t *testing.T) {
	var source strings.Builder
	for _, dir := range []string{"stethttp", "gateway", "cmd/stet", "internal/door"} {
		files, err := filepath.Glob("../../" + dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") || strings.HasSuffix(f, "stethttp/problem.go") {
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	for _, c := range layerCodes(t) {
		name := ""
		for word := range strings.SplitSeq(string(c), "-") {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
		if !regexp.MustCompile(`\b` + name + `\b|"` + string(c) + `"`).MatchString(source.String()) {
			t.Errorf("nothing answers with %s", c)
		}
	}
}

func TestHandler(t *testing.T) {
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		problems.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	w := get("/stet/problems/key-reused")
	for _, want := range []string{"<title>key-reused</title>", "<h2>If you send the request</h2>", "<code>mismatch</code>", "<b>Idempotency-Key was used",
		"<li>Use a new key only for a new operation.", "<code>body: jcs</code>"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page has no %s:\n%s", want, w.Body)
		}
	}
	if w := get("/problems/"); !strings.Contains(w.Body.String(), `<a href="key-reused">`) {
		t.Errorf("the list: %s", w.Body)
	}
	for _, path := range []string{"/problems/none", "/problems/problems.go", "/problems/%2e%2e", "/problems/<script>"} {
		if w := get(strings.ReplaceAll(path, "<script>", "%3Cscript%3E")); w.Code != 404 || strings.Contains(w.Body.String(), "<script>") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if !slices.IsSorted(problems.Codes()) {
		t.Error("the list is in no order")
	}
	if strings.Contains(get("/problems/not-supported").Body.String(), "](") {
		t.Error("a link is not made one")
	}
}
