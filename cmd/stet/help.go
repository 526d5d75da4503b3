package main

import (
	_ "embed"
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
		if m.word == path {
			text, examples, _ := strings.Cut("\n"+m.text, "\n    ")
			n.Detail = strings.TrimSpace(text + "\n\nExamples:\n    " + examples)
		}
	}
	for _, c := range n.Children {
		describe(c, strings.TrimSpace(path+" "+c.Name))
	}
}

// helpCmd is --help for those who type it as a command.
type helpCmd struct {
	Words []string `arg:"" optional:"" name:"command" help:"A command, such as keys list."`
}

func (c *helpCmd) Run(w *world, k *kong.Context) error {
	n := k.Model.Node
	for _, word := range c.Words {
		i := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == word && !c.Hidden })
		if i < 0 {
			return noCommand(strings.Join(c.Words, " "), k.Model.Node)
		}
		n = n.Children[i]
	}
	return w.command(append(c.Words, "--help"))
}

func noCommand(text string, program *kong.Node) error {
	if slices.Contains(wordsKnown(), text) {
		return failf(exitUsage, "%q is no command; stet explain %[1]s says what it means", text)
	}
	var names []string
	for _, c := range program.Children {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return failf(exitUsage, "%q is no command%s; stet help lists them", text, spell.Hint(text, names))
}
