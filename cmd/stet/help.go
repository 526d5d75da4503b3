package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/kong"

	"github.com/stet-dev/stet/internal/spell"
)

//go:embed help.md
var helpFile string

// helps are the sections of help.md.
var helps = sync.OnceValue(func() []meaning { return sections(helpFile) })

// describe gives each command below n what help.md has for it.
func describe(n *kong.Node, path string) {
	for _, m := range helps() {
		if m.kind == "" && m.word == path {
			text, examples, _ := strings.Cut("\n"+m.text, "\n    ")
			n.Detail = strings.TrimSpace(text + "\n\nExamples:\n    " + examples)
		}
	}
	for _, c := range n.Children {
		describe(c, strings.TrimSpace(path+" "+c.Name))
	}
}

// topics are those of stet help: the first name of each, and all names with the text.
func topics() (first []string, texts map[string]meaning) {
	texts = map[string]meaning{}
	for _, m := range helps() {
		if m.kind != "topic" {
			continue
		}
		names := strings.Split(m.word, ", ")
		first = append(first, names[0])
		for _, name := range names {
			texts[name] = m
		}
	}
	return first, texts
}

// helpCmd is --help for those who type it as a command, and explains topics.
type helpCmd struct {
	Words []string `arg:"" optional:"" name:"topic" words:"HELP" help:"A command, such as keys list, or a topic."`
}

func (c *helpCmd) Run(w *world, k *kong.Context) error {
	first, texts := topics()
	topic, isTopic := texts[strings.ToLower(strings.Join(c.Words, "-"))]
	_, isCommand := commandOf(k.Model.Node, c.Words)
	if isCommand {
		if err := w.command(append(c.Words, "--help")); err != nil {
			return err
		}
	}
	switch {
	case isTopic && isCommand:
		fmt.Fprintf(w.stdout, "\nTopic %s:\n\n", topic.word)
		fallthrough
	case isTopic:
		return explainTopic(w, &topic, k.Model.Node)
	case isCommand && len(c.Words) == 0:
		return w.printf("\nTopics of stet help:\n  %s\n", strings.Join(first, ", "))
	case isCommand:
		return nil
	}
	word := strings.Join(c.Words, " ")
	if slices.Contains(wordsKnown(), word) {
		return failf(exitUsage, "%q is no command and no topic; stet explain %[1]s says what it means", word)
	}
	return failf(exitUsage, "%q is no command and no topic%s; stet help lists them", word,
		spell.Hint(word, helpWords(k.Model.Node)))
}

func explainTopic(w *world, topic *meaning, program *kong.Node) error {
	fmt.Fprintln(w.stdout, topic.text)
	name, _, _ := strings.Cut(topic.word, ",")
	if more := generated[name]; more != nil {
		fmt.Fprintln(w.stdout)
		return pairs(w.stdout, more(program)...)
	}
	return nil
}

// commandOf follows words down from a node.
func commandOf(n *kong.Node, words []string) (*kong.Node, bool) {
	for _, word := range words {
		i := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == word && !c.Hidden })
		if i < 0 {
			return nil, false
		}
		n = n.Children[i]
	}
	return n, true
}

// helpWords are the commands below the program, and all names of topics.
func helpWords(n *kong.Node) []string {
	_, texts := topics()
	words := sortedKeys(texts)
	for _, c := range n.Children {
		if !c.Hidden {
			words = append(words, c.Name)
		}
	}
	return words
}

// generated are the parts of topics that the program knows from elsewhere, as names and values.
var generated = map[string]func(*kong.Node) []string{
	"exit-codes": func(*kong.Node) (lines []string) {
		for _, m := range meanings() {
			if m.kind == "exit status" {
				what, _ := halves(m.word, m.kind)
				lines = append(lines, m.word, what)
			}
		}
		return lines
	},
	"environment": func(n *kong.Node) (lines []string) {
		says := map[string]string{adminTokenVariable: "The token for the admin address; it has no flag."}
		for _, command := range n.Leaves(true) {
			for _, f := range command.Flags {
				for _, name := range f.Envs {
					if text := "--" + f.Name + ": " + f.Help; len(text) > len(says[name]) { // commands say more and less of the same
						says[name] = text
					}
				}
			}
		}
		for _, name := range sortedKeys(says) {
			lines = append(lines, name, says[name])
		}
		return lines
	},
}
