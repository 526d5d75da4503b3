package docs_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stet-dev/stet/internal/tier"
)

var update = flag.Bool("update", false, "write assurance.md")

// idForm is how code and tests name what they keep: an invariant, a crash window, a case, a
// requirement, a finding.
var idForm = regexp.MustCompile(`\b(I\d{1,2}|W\d{1,2}|(?:KS|MM|FP|CC|RP|TT|SC|FX|SF|CR|SM|LM|SE|GW|PF|OP)-\d\d|S[0-4]-\d\d|[A-E]\d\d)\b`)

// rangeForm is several of them: W1 to W7.
var rangeForm = regexp.MustCompile(`\b([IW])(\d+) (?:to|\.\.) [IW](\d+)\b`)

func spelled(text string) (all string) {
	m := rangeForm.FindStringSubmatch(text)
	from, _ := strconv.Atoi(m[2])
	to, _ := strconv.Atoi(m[3])
	for n := from; n <= to; n++ {
		all += m[1] + strconv.Itoa(n) + " "
	}
	return all
}

// families are the parts of the page, in order.
var families = []struct{ title, intro, form string }{
	{"Invariants", "What is true of every record at all times.", `^I\d`},
	{"Windows", "Crashes, lost messages and races, each with what must come of it.", `^W\d`},
	{"Cases", "What a client sees. Each is a black-box case of `internal/integration/blackbox`, and many have tests closer to the code.", `^[A-Z]{2}-`},
	{"Requirements", "Demands of the product's sources that no case above states.", `^S\d-`},
	{"Findings", "What was broken once, and must hold since.", `^[A-E]\d`},
}

// TestAssurance holds assurance.md to the tree: each id that code, tests or docs name has one
// sentence in assurance.txt, and a test names each id that has a sentence. After a change of
// either, go test ./docs -run TestAssurance -update writes the page.
func TestAssurance(t *testing.T) {
	tier.Campaign(t, "a test that gets another name would have to change documents, too")
	sentences := sentencesOf(t)
	uses, keepers := walk(t)
	for id, at := range uses {
		if _, ok := sentences[id]; !ok {
			t.Errorf("%s is named in %s, and assurance.txt has no sentence for it", id, at)
		}
	}
	var page strings.Builder
	page.WriteString("# What is kept, and by which tests\n\nWritten by `go test ./docs -run TestAssurance -update` from the sentences of " +
		"[assurance.txt](assurance.txt) and\nthe comments of the tests. Code, tests and documents name these ids.\n")
	for _, f := range families {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n", f.title, f.intro)
		form := regexp.MustCompile(f.form)
		for _, id := range slices.SortedFunc(maps.Keys(sentences), inOrder) {
			if !form.MatchString(id) {
				continue
			}
			if len(keepers[id]) == 0 {
				t.Errorf("%s has a sentence in assurance.txt, and no test names it", id)
			}
			fmt.Fprintf(&page, "- **%s** %s<br>%s\n", id, sentences[id], places(keepers[id]))
		}
	}
	if t.Failed() {
		return
	}
	if *update {
		if err := os.WriteFile("assurance.md", []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile("assurance.md"); err != nil || string(have) != page.String() {
		t.Errorf("assurance.md is not what the tree says (%v); go test ./docs -run TestAssurance -update writes it", err)
	}
}

// sentencesOf reads "id sentence" lines. Lines that begin with # are comments.
func sentencesOf(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("assurance.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		id, sentence, _ := strings.Cut(line, " ")
		sentence = strings.TrimSpace(sentence)
		switch {
		case idForm.FindString(id) != id:
			t.Errorf("assurance.txt: %q is no id", id)
		case all[id] != "":
			t.Errorf("assurance.txt: %s is there twice", id)
		case !strings.HasSuffix(sentence, "."):
			t.Errorf("assurance.txt: %s has no sentence", id)
		}
		all[id] = sentence
	}
	return all
}

// keeper is a test, or a part of one that has a name of its own.
type keeper struct{ name, dir string }

// walk returns one place that names each id, and the tests that do.
func walk(t *testing.T) (uses map[string]string, keepers map[string]map[keeper]bool) {
	t.Helper()
	uses, keepers = map[string]string{}, map[string]map[keeper]bool{}
	note := func(text, file string, k keeper) {
		text = rangeForm.ReplaceAllStringFunc(text, spelled)
		for _, id := range idForm.FindAllString(text, -1) {
			uses[id] = file
			if k.name != "" {
				if keepers[id] == nil {
					keepers[id] = map[keeper]bool{}
				}
				keepers[id][k] = true
			}
		}
	}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(file), "../")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != ".." || name == "bin"):
			return filepath.SkipDir
		case d.IsDir() || strings.HasPrefix(name, "docs/assurance"):
			return nil
		case strings.HasSuffix(name, ".go"):
			return walkGo(file, name, note)
		case strings.HasPrefix(name, "internal/corpus/testdata/"):
			return walkCorpus(file, name, note)
		case path.Ext(name) == ".md" && strings.HasPrefix(name, "docs/"):
			text, err := os.ReadFile(file)
			note(string(text), name, keeper{})
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return uses, keepers
}

// walkGo notes the ids in comments, and in strings that begin with one.
func walkGo(file, name string, note func(text, file string, k keeper)) error {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	at := func(pos token.Pos) keeper {
		for _, d := range tree.Decls {
			from, to := d.Pos(), d.End()
			f, _ := d.(*ast.FuncDecl)
			if f != nil && f.Doc != nil {
				from = f.Doc.Pos()
			}
			if from <= pos && fset.Position(pos).Line <= fset.Position(to).Line {
				return keeperOf(f, name)
			}
		}
		return keeperOf(nil, name)
	}
	for _, group := range tree.Comments {
		for _, c := range group.List {
			note(c.Text, name, at(c.Pos()))
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				if id := idForm.FindString(text); id != "" && strings.HasPrefix(text, id) && strings.Contains(id, "-") {
					note(id, name, at(lit.Pos()))
				}
			}
		}
		return true
	})
	return nil
}

// keeperOf names what keeps an id that stands in f, or outside functions. Laws of storetest and
// checks of stettest are tests although their files are not; a helper of tests counts as its file.
func keeperOf(f *ast.FuncDecl, file string) keeper {
	dir, base := path.Split(file)
	dir = strings.TrimSuffix(dir, "/")
	isTest := strings.HasSuffix(file, "_test.go")
	switch {
	case f != nil && isTest && f.Recv == nil && regexp.MustCompile(`^(Test|Fuzz)`).MatchString(f.Name.Name):
		return keeper{f.Name.Name, dir}
	case dir == "store/storetest" || dir == "stettest":
		if f != nil {
			return keeper{f.Name.Name, dir}
		}
		return keeper{base, dir}
	case isTest:
		return keeper{base, dir}
	}
	return keeper{}
}

// walkCorpus notes the ids of conversations, which begin with "== ID name".
func walkCorpus(file, name string, note func(text, file string, k keeper)) error {
	text, err := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "== "); ok {
			id, _, _ = strings.Cut(id, " ")
			note(id, name, keeper{path.Base(name), "internal/corpus"})
		}
	}
	return err
}

// places lists keepers by their directories. A file is named only where no test is.
func places(all map[keeper]bool) string {
	byDir := map[string][]string{}
	for k := range all {
		byDir[k.dir] = append(byDir[k.dir], k.name)
	}
	var out []string
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		names := byDir[dir]
		if tests := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.Contains(n, ".") }); len(tests) > 0 {
			names = tests
		}
		slices.Sort(names)
		out = append(out, cmp.Or(dir, "stet")+": `"+strings.Join(names, "`, `")+"`")
	}
	return strings.Join(out, " · ")
}

// inOrder sorts I2 before I10.
func inOrder(a, b string) int {
	letters := func(id string) string { return strings.TrimRight(id, "0123456789") }
	return cmp.Or(cmp.Compare(letters(a), letters(b)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
