package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What each shell offers for a line, as it would after Tab.
var completions = []struct {
	line string
	want []string // all of these; a word with - before it must not be there
}{
	{"stet ga", []string{"gateway"}},
	{"stet keys ", []string{"list", "show", "-gateway"}},
	{"stet keys list --sta", []string{"--state"}},
	{"stet keys list --limit 5 --scope keys --st", []string{"--state", "--store", "-list"}},
	{"stet keys list --state un", []string{"unknown", "-running"}},
	{"stet gateway --profile stripe", []string{"stripe", "stripe-v2"}},
	{"stet h", []string{"help"}},
	{"stet config ", []string{"check", "test", "init"}},
	{"stet config check --d", []string{"--deep"}},
	{"stet keys list --conf", []string{"--config"}},
	{"stet config check --config fi", []string{"file.yaml", "-list"}},
	{"stet gateway --config two", []string{"two words.yaml", "-words.yaml"}},
	{"stet demo --keep d", []string{"dir", "-file.yaml"}},
	{"stet completion ", []string{"bash", "zsh", "fish"}},
}

// completionScripts print what a shell offers for the line that is their argument. zsh completes in
// its line editor alone, so what compadd is given is written down instead.
var completionScripts = map[string]string{
	"bash": `source <(stet completion bash)
		COMP_WORDS=($1); [[ $1 == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		_stet; printf '%s\n' "${COMPREPLY[@]}"`,
	"fish": `stet completion fish | source; complete -C "$argv[1]" | string replace -r '\t.*' '' | string replace -r '/$' ''`,
	"zsh": `compdef() {}; source <(stet completion zsh)
		compadd() { [[ $1 == -a ]] && print -rl -- ${(P)2} || print -rl -- ${@:2}; }
		_describe() { print -rl -- ${(P)2} | sed 's/:.*//'; }
		_files() { [[ $1 == -/ ]] && print -rl -- *(/N) || print -rl -- *(N); }
		words=(${(z)1}); [[ $1 == *' ' ]] && words+=(''); CURRENT=$#words; PREFIX=$words[CURRENT]
		_stet | grep -e "^$PREFIX"`,
}

func TestBashCompletion(t *testing.T) { testCompletion(t, "bash") }

// --flag=value is three words to bash.
func TestBashCompletionOfAValueAfterEquals(t *testing.T) {
	for words, want := range map[string]string{"(stet keys list --state = un)": "unknown",
		"(stet gateway --profile =)": "seed-strict"} {
		got := shellOffers(t, "bash", `source <(stet completion bash); COMP_WORDS=`+words+`; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			_stet; printf '%s\n' "${COMPREPLY[@]}"`, "")
		if !slices.Contains(got, want) {
			t.Errorf("%s: %q is not in %q", words, want, got)
		}
	}
}

func TestFishCompletion(t *testing.T) { testCompletion(t, "fish") }

func TestZshCompletion(t *testing.T) { testCompletion(t, "zsh") }

func testCompletion(t *testing.T, shell string) {
	for _, c := range completions {
		got := shellOffers(t, shell, completionScripts[shell], c.line)
		for _, w := range c.want {
			if out, not := strings.CutPrefix(w, "-"); not && !strings.HasPrefix(w, "--") {
				if slices.Contains(got, out) {
					t.Errorf("%q: %q is in %q", c.line, out, got)
				}
			} else if !slices.Contains(got, w) {
				t.Errorf("%q: %q is not in %q", c.line, w, got)
			}
		}
	}
}

// shellOffers runs a script with the line to complete as its argument, in a directory with a file
// and a directory.
func shellOffers(t *testing.T, shell, script, line string) []string {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		t.Skipf("there is no %s here", shell)
	}
	return strings.Split(runShell(t, "mkdir dir; : >file.yaml; : >'two words.yaml'; "+shell+` -c "$script" `+shellArg0(shell)+` "$line"`, "script="+script, "line="+line), "\n")
}

// shellArg0 is what takes the place of the script's name: fish has none.
func shellArg0(shell string) string {
	if shell == "fish" {
		return ""
	}
	return shell
}
