package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/docs/problems"
	"github.com/stet-dev/stet/reconcile"
)

// Every word that Stet says is explained, and no other: problem codes, states, verdicts, results,
// metrics, alerts, causes of records and of jobs, findings of probes, outlooks, actions of the
// audit trail, checks and exit statuses.
func TestEveryWordIsExplained(t *testing.T) {
	said := map[string][]string{
		"state":       {"failed"},
		"result":      append(found(t, `\{\d+, "([a-z_]+)", `, "../../stethttp/problem.go"), "new", "retry", "replay", "bypass"),
		"metric":      found(t, `"(idem_[a-z_]+)"`, "../internal/observe/*.go"),
		"cause":       found(t, `(?i)(?:(?:Unknown|NotExecuted)\(|[cC]ause[A-Za-z]* *= )"([a-z-]+)"`, "../../*.go", "../../stethttp/*.go", "../../flow/*.go", "../../gateway/*.go"),
		"alert":       found(t, `alert: (\w+)`, "../../docs/alerts.yaml"),
		"finding":     {"silent"},
		"outlook":     found(t, `Next *= "([a-z-]+)"`, "../../reconcile/outlook.go"),
		"exit status": nil,
		"check":       nil,
	}
	said["cause"] = append(slices.DeleteFunc(said["cause"], func(word string) bool { return word == "bypass" }), // which is no cause of a record
		"upstream-failed", "execution-timeout", // codes of the answers that were given
		found(t, `return "(lease-lost)"`, "../../stethttp/run.go", "../../gateway/answer.go")[0])
	said["job cause"] = found(t, `Cause: "([a-z-]+)"`, "../../operate/job.go") // the others are codes of problems
	_, trail, _ := strings.Cut(readFile(t, operateDoc), "\n## The audit trail\n")
	trail, _, _ = strings.Cut(trail, "\n\n    stet ")
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`"+`.*?) \|`).FindAllStringSubmatch(trail, -1) {
		said["audit action"] = append(said["audit action"], regexp.MustCompile(`[a-z-]+`).FindAllString(row[1], -1)...)
	}
	for s := stet.Running; s <= stet.Expired; s++ {
		said["state"] = append(said["state"], s.String())
	}
	for v := stet.Execute; v <= stet.Absent; v++ {
		said["verdict"] = append(said["verdict"], v.String())
	}
	for e := reconcile.Pending; e <= reconcile.GoesOn; e++ {
		said["finding"] = append(said["finding"], e.String())
	}
	for e := exitFine; e <= exitFindings; e++ {
		said["exit status"] = append(said["exit status"], fmt.Sprint(int(e)))
	}
	for _, c := range checks {
		said["check"] = append(said["check"], c.word)
	}
	said["check"] = append(said["check"], found(t, `(?:warned\(|code :?= )"([a-z-]+)"`, "health.go")...)
	said["check"] = append(said["check"], found(t, `Code: "([a-z-]+)"`, "../../operate/status.go")...)
	for _, word := range problems.Codes() {
		if explained(t, word) == "" {
			t.Errorf("the problem code %s is not explained", word)
		}
	}
	for kind, words := range said {
		for _, word := range words {
			if !strings.Contains(explained(t, word), "# "+word+" ("+kind+")\n") {
				t.Errorf("the %s %s is not explained: write it into words.md", kind, word)
			}
		}
	}
	for _, m := range meanings() {
		if words, ok := said[m.kind]; ok && !slices.Contains(words, m.word) {
			t.Errorf("nothing says the %s %s: take it out of words.md", m.kind, m.word)
		}
		if said[m.kind] == nil {
			t.Errorf("%s is a %s: there is no such kind", m.word, m.kind)
		}
		if what, todo, ok := strings.Cut(m.text, "\n- "); !ok || len(what) < 10 || len(todo) < 5 {
			t.Errorf("the text of %s says not both what it is and what to do: %q", m.word, m.text)
		}
	}
}

// The rules for Prometheus are those that the guide lists, and the words of each kind are offered
// where a word is asked for.
func TestAlertsAndKinds(t *testing.T) {
	rules := found(t, `expr: (.*)`, "../../docs/alerts.yaml")
	said := found(t, "(?m)^\\| `([^`]*idem_[^`]*)` \\| ", "../../docs/operate.md")
	said = slices.DeleteFunc(said, func(text string) bool {
		return strings.Contains(text, "idem_outbox") || strings.Contains(text, `kind="outbox"`)
	}) // of services
	if slices.Sort(rules); !slices.Equal(rules, slices.Sorted(slices.Values(said))) {
		t.Errorf("alerts.yaml has\n%s\noperate.md\n%s", strings.Join(rules, "\n"), strings.Join(said, "\n"))
	}
	_, help, _ := ran(t, "explain", "--help")
	for _, m := range meanings() {
		if !strings.Contains(strings.Join(strings.Fields(help), " "), m.kind) {
			t.Fatalf("stet explain --help offers no %s", m.kind)
		}
	}
}

func explained(t *testing.T, word string) string {
	t.Helper()
	var stdout bytes.Buffer
	_ = (&explainCmd{Word: word}).Run(&world{stdout: &stdout}) // an error is no explanation
	return stdout.String()
}

// found are the words in files that an expression finds.
func found(t *testing.T, expression string, patterns ...string) (words []string) {
	t.Helper()
	for _, p := range patterns {
		files, err := filepath.Glob(p)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", p, len(files), err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1) {
				words = append(words, m[1])
			}
		}
	}
	if len(words) == 0 {
		t.Fatalf("%s finds only %q in %q", expression, words, patterns)
	}
	return words
}
