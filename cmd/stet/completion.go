package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" complete:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is what --help says below the argument.
func (completionCmd) Help() string {
	return `bash: source <(stet completion bash), in ~/.bashrc.
zsh: stet completion zsh > _stet, in a directory of $fpath; or source <(stet completion zsh), after compinit.
fish: stet completion fish > ~/.config/fish/completions/stet.fish.`
}

func (c *completionCmd) Run(w *world, k *kong.Context) error {
	write := map[string]func([]commandWords) string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Shell]
	if write == nil {
		return failf(exitUsage, "there is no completion for %q; there is one for bash, zsh and fish", c.Shell)
	}
	_, err := fmt.Fprint(w.stdout, write(wordsOf(k.Model.Node, "stet", nil)))
	return err
}

// commandWords is what may follow a command.
type commandWords struct {
	path     string // from the program on, such as "stet keys list"
	commands []word
	flags    []word
	args     []string // values of its argument, where they are known
}

// word is a command or a flag.
type word struct {
	name, help string
	takes      bool // a value
	kind       string
	values     []string // what the value may be, where that is known
}

// wordsOf takes commands from the model that parses them, so that what is offered is what is
// understood. The tag complete lists the values of a flag; the placeholders FILE and DIR ask for
// paths.
func wordsOf(n *kong.Node, path string, inherited []word) []commandWords {
	flags := slices.Clone(inherited)
	for _, f := range n.Flags {
		if !f.Hidden {
			flags = append(flags, word{"--" + f.Name, f.Help, !f.IsBool(), f.PlaceHolder, listed(f.Tag)})
		}
	}
	all := []commandWords{{path: path, flags: flags}}
	for _, p := range n.Positional {
		all[0].args = append(all[0].args, listed(p.Tag)...)
	}
	for _, c := range n.Children {
		if !c.Hidden {
			all[0].commands = append(all[0].commands, word{name: c.Name, help: c.Help})
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

// Each script finds out where on the command line it is, in the same way: words that name a command
// lead down to it, all others are flags and their values.

func bashCompletion(all []commandWords) string {
	var b strings.Builder
	b.WriteString(`# stet completion bash
_stet() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at=stet i commands= flags= paths=
	if [[ $cur == = ]]; then # bash takes --flag=value apart
		cur=
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$at ${COMP_WORDS[i]}" in
		`)
	b.WriteString(quoted(below(all), "|") + `) at+=" ${COMP_WORDS[i]}" ;;
		esac
	done
	case "$at $prev" in
`)
	for _, v := range values(all) {
		fmt.Fprintf(&b, "\t%s) %s ;;\n", quoted(v.flags, "|"), map[string]string{
			"FILE": "paths=-f",
			"DIR":  "paths=-d",
			"":     fmt.Sprintf(`COMPREPLY=($(compgen -W '%s' -- "$cur")); return`, strings.Join(v.words, " ")),
		}[v.kind])
	}
	b.WriteString(`	esac
	if [[ -n $paths ]]; then
		local IFS=$'\n'
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen $paths -- "$cur"))
		return
	fi
	case $at in
`)
	for _, c := range all {
		fmt.Fprintf(&b, "\t'%s') commands='%s' flags='%s' ;;\n", c.path, strings.Join(append(names(c.commands), c.args...), " "), strings.Join(names(c.flags), " "))
	}
	b.WriteString(`	esac
	[[ $cur == -* || -z $commands ]] && commands=$flags
	COMPREPLY=($(compgen -W "$commands" -- "$cur"))
}
complete -F _stet stet
`)
	return b.String()
}

func zshCompletion(all []commandWords) string {
	var b strings.Builder
	b.WriteString(`#compdef stet
# stet completion zsh
_stet() {
	local at=stet prev=$words[CURRENT-1] i
	local -a commands flags args
	if [[ $PREFIX == --*=* ]]; then
		prev=${PREFIX%%=*}
		compset -P '*='
	fi
	for ((i = 2; i < CURRENT; i++)); do
		case "$at $words[i]" in
		(`)
	b.WriteString(quoted(below(all), "|") + `) at+=" $words[i]" ;;
		esac
	done
	case "$at $prev" in
`)
	for _, v := range values(all) {
		fmt.Fprintf(&b, "\t(%s) %s; return ;;\n", quoted(v.flags, "|"), map[string]string{
			"FILE": "_files", "DIR": "_files -/", "": "compadd -- " + strings.Join(v.words, " "),
		}[v.kind])
	}
	b.WriteString("\tesac\n\tcase $at in\n")
	for _, c := range all {
		fmt.Fprintf(&b, "\t('%s') commands=(%s) args=(%s) flags=(%s) ;;\n", c.path, described(c.commands), strings.Join(c.args, " "), described(c.flags))
	}
	b.WriteString(`	esac
	if [[ $PREFIX != -* && $#commands -gt 0 ]]; then
		_describe command commands
	elif [[ $PREFIX != -* && $#args -gt 0 ]]; then
		compadd -a args
	else
		_describe flag flags
	fi
}
if [[ $funcstack[1] == _stet ]]; then
	_stet "$@"
else
	compdef _stet stet
fi
`)
	return b.String()
}

func fishCompletion(all []commandWords) string {
	var b strings.Builder
	b.WriteString(`# stet completion fish
function __stet_at
	set -l at stet
	for word in (commandline -opc)[2..]
		switch "$at $word"
			case ` + quoted(below(all), " ") + `
				set at "$at $word"
		end
	end
	test "$at" = "$argv[1]"
end
complete -c stet -f
`)
	for _, c := range all {
		at := fmt.Sprintf(`complete -c stet -n '__stet_at "%s"'`, c.path)
		for _, w := range c.commands {
			fmt.Fprintf(&b, "%s -a %s -d %s\n", at, w.name, fishQuote(w.help))
		}
		for _, v := range c.args {
			fmt.Fprintf(&b, "%s -a %s\n", at, v)
		}
		for _, w := range c.flags {
			value := ""
			switch {
			case w.kind == "FILE":
				value = " -r -F"
			case w.kind == "DIR":
				value = " -x -a '(__fish_complete_directories)'"
			case w.takes:
				value = " -x -a '" + strings.Join(w.values, " ") + "'"
			}
			fmt.Fprintf(&b, "%s -l %s%s -d %s\n", at, strings.TrimPrefix(w.name, "--"), value, fishQuote(w.help))
		}
	}
	return b.String()
}

// below are the paths of all commands but the program's own.
func below(all []commandWords) []string {
	var paths []string
	for _, c := range all[1:] {
		paths = append(paths, c.path)
	}
	return paths
}

// value is what may follow some flags.
type value struct {
	flags []string // each after the path of its command
	kind  string   // FILE, DIR, or empty: the words
	words []string
}

// values gathers the flags that take one by what it may be.
func values(all []commandWords) []value {
	var out []value
	for _, c := range all {
		for _, f := range c.flags {
			if !f.takes {
				continue
			}
			kind := f.kind
			if kind != "FILE" && kind != "DIR" {
				kind = ""
			}
			i := slices.IndexFunc(out, func(v value) bool { return v.kind == kind && slices.Equal(v.words, f.values) })
			if i < 0 {
				i, out = len(out), append(out, value{kind: kind, words: f.values})
			}
			out[i].flags = append(out[i].flags, c.path+" "+f.name)
		}
	}
	return out
}

func names(words []word) []string {
	var out []string
	for _, w := range words {
		out = append(out, w.name)
	}
	return out
}

// quoted joins words that hold no quotes.
func quoted(words []string, sep string) string { return "'" + strings.Join(words, "'"+sep+"'") + "'" }

func described(words []word) string {
	var out []string
	for _, w := range words {
		out = append(out, "'"+strings.ReplaceAll(w.name+":"+w.help, "'", `'\''`)+"'")
	}
	return strings.Join(out, " ")
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
