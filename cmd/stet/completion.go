package main

import (
	"embed"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" complete:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (c *completionCmd) Run(w *world, k *kong.Context) error {
	script := scripts().Lookup(c.Shell + ".tmpl")
	if script == nil {
		return failf(exitUsage, "there is no completion for %q; there is one for bash, zsh and fish", c.Shell)
	}
	all := wordsOf(k.Model.Node, "stet", nil)
	below := each(all[1:], func(c *commandWords) string { return c.Path }) // all commands but the program's own
	return script.Execute(w.stdout, map[string]any{"All": all, "Below": below, "Values": values(all)})
}

// commandWords is what may follow a command.
type commandWords struct {
	Path     string // from the program on, such as "stet keys list"
	Commands []word
	Flags    []word
	Args     []string // values of its argument, where they are known
}

// word is a command or a flag.
type word struct {
	Name, Help string
	Takes      bool     // a value
	Kind       string   // FILE or DIR, where the value is a path
	Values     []string // what the value may be, where that is known
}

// wordsOf takes commands from the model that parses them, so that what is offered is what is
// understood. The tag complete lists the values of a flag; the placeholders FILE and DIR ask for
// paths.
func wordsOf(n *kong.Node, path string, inherited []word) []commandWords {
	flags := slices.Clone(inherited)
	for _, f := range n.Flags {
		if !f.Hidden {
			kind := f.PlaceHolder
			if kind != "FILE" && kind != "DIR" {
				kind = ""
			}
			flags = append(flags, word{"--" + f.Name, f.Help, !f.IsBool(), kind, listed(f.Tag)})
		}
	}
	all := []commandWords{{Path: path, Flags: flags}}
	for _, p := range n.Positional {
		all[0].Args = append(all[0].Args, listed(p.Tag)...)
	}
	for _, c := range n.Children {
		if !c.Hidden {
			all[0].Commands = append(all[0].Commands, word{Name: c.Name, Help: c.Help})
			all = append(all, wordsOf(c, path+" "+c.Name, flags)...)
		}
	}
	return all
}

func listed(t *kong.Tag) []string {
	if t == nil || t.Get("complete") == "" {
		return nil
	}
	return strings.Split(t.Get("complete"), ",")
}

// value is what may follow some flags.
type value struct {
	Flags []string // each after the path of its command
	Kind  string   // FILE, DIR, or empty: the words
	Words []string
}

// values gathers the flags that take one by what it may be.
func values(all []commandWords) []value {
	var out []value
	for _, c := range all {
		for _, f := range c.Flags {
			if !f.Takes {
				continue
			}
			i := slices.IndexFunc(out, func(v value) bool { return v.Kind == f.Kind && slices.Equal(v.Words, f.Values) })
			if i < 0 {
				i, out = len(out), append(out, value{Kind: f.Kind, Words: f.Values})
			}
			out[i].Flags = append(out[i].Flags, c.Path+" "+f.Name)
		}
	}
	return out
}

//go:embed completion
var completionFiles embed.FS

// scripts returns the templates of the shells' scripts. Each finds out where on the command line it
// is in the same way: words that name a command lead down to it, all others are flags and values.
func scripts() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"join":   func(lists ...[]string) string { return strings.Join(slices.Concat(lists...), " ") },
		"names":  func(words []word) []string { return each(words, func(w *word) string { return w.Name }) },
		"quoted": func(words []string, sep string) string { return "'" + strings.Join(words, "'"+sep+"'") + "'" }, // they hold no quotes
		"described": func(words []word) string {
			return strings.Join(each(words, func(w *word) string {
				return "'" + strings.ReplaceAll(w.Name+":"+w.Help, "'", `'\''`) + "'"
			}), " ")
		},
		"fish": func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'" },
	}).ParseFS(completionFiles, "completion/*.tmpl"))
}
