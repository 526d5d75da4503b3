package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stet-dev/stet/docs/problems"
	"github.com/stet-dev/stet/internal/spell"
	"github.com/stet-dev/stet/operate"
)

type explainCmd struct {
	Word string `arg:"" optional:"" help:"A problem code or its type URL, a state, verdict, result, metric, alert, cause, job cause, finding of a probe, outlook, audit action, check or exit status; without it, all words are listed."`
}

// meaning is what a word means as one kind of thing; some words are several.
type meaning struct{ word, kind, text string }

//go:embed words.md
var wordsFile string

// meanings are those of words.md, in its order.
var meanings = sync.OnceValue(func() []meaning { return sections(wordsFile) })

// sections are those of a file: a line "## word (kind)", or "## word", and text below it.
func sections(file string) (all []meaning) {
	for _, part := range strings.Split(file, "\n## ")[1:] {
		head, text, _ := strings.Cut(part, "\n")
		word, kind, _ := strings.Cut(head, " (")
		all = append(all, meaning{word, strings.TrimSuffix(kind, ")"), strings.Trim(text, "\n")})
	}
	return all
}

// warned is what a check has found, with what to do about it.
func warned(check, text string) operate.Warning {
	_, todo := halves(check, "check")
	return operate.Warning{Code: check, Text: text, Mend: todo}
}

// halves are what a word of a kind means, and what to do about it: the line of its explanation that
// begins with a dash. Both are "" of a word that is not known.
func halves(word, kind string) (what, todo string) {
	for _, m := range meanings() {
		if m.word == word && m.kind == kind {
			what, todo, _ = strings.Cut("\n"+m.text, "\n- ")
		}
	}
	oneLine := strings.NewReplacer("\n", " ")
	return strings.TrimSpace(oneLine.Replace(what)), oneLine.Replace(todo)
}

// wordsKnown are all words that can be explained, each once.
func wordsKnown() []string {
	all := append(problems.Codes(), each(meanings(), func(m *meaning) string { return m.word })...)
	slices.Sort(all)
	return slices.Compact(all)
}

// counts is what a metric counts, as people say it: lapsed of idem_lapsed_total.
func counts(metric string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(metric, "idem_"), "_total"), "_", "-")
}

func (c *explainCmd) Run(w *world) error {
	if c.Word == "" {
		return w.printf("%s\n", strings.Join(wordsKnown(), "\n"))
	}
	word := c.Word[strings.LastIndexByte(c.Word, '/')+1:]
	text, _ := problems.Page(word)
	for _, m := range meanings() {
		if m.word == word || m.kind == "metric" && counts(m.word) == word {
			text += fmt.Sprintf("\n# %s (%s)\n\n%s\n", m.word, m.kind, m.text)
		}
	}
	if text == "" {
		return failf(exitNotFound, "there is no word %q%s; stet explain lists them all", word, spell.Hint(word, wordsKnown()))
	}
	return w.printf("%s", strings.TrimPrefix(text, "\n"))
}
