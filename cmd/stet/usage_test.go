package main

import (
	"bytes"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alecthomas/kong"
)

// nowhere is a store that cannot be reached: a command that opens it ends with 5.
const nowhere = "postgres://stet@127.0.0.1:1/stet"

// D10: a mistake of the command line is one whatever the store is like. Each command is given each
// kind of mistake that its flags can have, on a store that does not answer.
func TestUsageErrorsComeBeforeTheStore(t *testing.T) {
	parser, err := kong.New(&cli{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, n := range parser.Model.Leaves(true) {
		words := strings.Fields(n.FullPath())[1:]
		for _, p := range n.Positional {
			if p.Required {
				words = append(words, "1")
			}
		}
		own := map[string]*kong.Flag{}
		for _, f := range n.Flags {
			own[f.Name] = f
		}
		if own["store"] != nil {
			words = append(words, "--store", nowhere)
		}
		for what, args := range mistakes(own) {
			tried++
			args = append(slices.Clone(words), args...)
			var out, said bytes.Buffer
			if got := run(t.Context(), args, os.Stdin, &out, &said); got != exitUsage {
				t.Errorf("%s: stet %s ended with %d, want 2: %s", what, strings.Join(args, " "), got, said.String())
			}
		}
	}
	if tried < 60 {
		t.Errorf("only %d mistakes were tried", tried)
	}
}

// mistakes are arguments that are wrong whatever they are about.
func mistakes(own map[string]*kong.Flag) map[string][]string {
	all := map[string][]string{"unknown flag": {"--no-such-flag"}}
	for name, f := range own {
		switch {
		case f.Target.Type() == reflect.TypeFor[time.Duration]():
			all["a negative --"+name], all["no span in --"+name] = []string{"--" + name + "=-5m"}, []string{"--" + name, "soon"}
		case listed(f.Tag) != nil:
			all["no such value of --"+name] = []string{"--" + name, "nonsense"}
		}
	}
	if own["limit"] != nil {
		all["nothing to do"] = []string{"--limit", "0"}
	}
	if own["config"] != nil {
		all["no such file"] = []string{"--config", "none.yaml"}
	}
	if own["store"] != nil {
		all["no such store"] = []string{"--store", "oracle:x"}
	}
	if own["reason"] != nil && own["yes"] != nil && !own["yes"].Hidden {
		all["no reason"], all["a blank reason"] = []string{"--yes"}, []string{"--yes", "--reason", " "}
		all["nobody to ask"] = []string{"--reason", "why"}
	}
	return all
}

// D10: /dev/null is a character device and not a terminal.
func TestTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if isTerminal(null) {
		t.Error("somebody sits at /dev/null")
	}
	if tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err == nil {
		defer func() { _ = tty.Close() }()
		if !isTerminal(tty) {
			t.Error("nobody sits at a terminal")
		}
		if err := new(confirmed).check(&world{stdin: tty}); err != nil { // Y22
			t.Errorf("it could ask: %v", err)
		}
	}
	if err := new(confirmed).check(&world{stdin: null}); err == nil {
		t.Error("it asks /dev/null")
	}
}

func TestSpan(t *testing.T) {
	for s, want := range map[string]time.Duration{"15m": 15 * time.Minute, "1d": 24 * time.Hour, "1d12h": 36 * time.Hour,
		"1.5d": 36 * time.Hour, "0d": 0, "0": 0,
		"30d1h30m": 721*time.Hour + 30*time.Minute} {
		if got, err := span(s); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", s, got, err, want)
		}
	}
	for _, s := range []string{"", "d", "-1d", "1d-5h", "1d 5h", "1h1d", "1dd", "1D", "200000d", "x", "1d12"} {
		if got, err := span(s); err == nil {
			t.Errorf("%s is %s", s, got)
		}
	}
}

// D11: signals within a second are one.
func TestSecondSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		first, ended := time.Now(), time.Time{}
		go func() {
			second(signals, first)
			ended = time.Now()
		}()
		for range 30 {
			time.Sleep(100 * time.Millisecond) // of the bubble's clock
			select {
			case signals <- os.Interrupt:
			default: // the waiter has gone
			}
		}
		synctest.Wait()
		if took := ended.Sub(first); took != 1100*time.Millisecond {
			t.Errorf("the second signal came after %s", took)
		}
	})
}

// A flag without the tag sets would be read and ignored.
func TestEveryFlagOfTheGatewaySetsSomething(t *testing.T) {
	for f := range reflect.TypeFor[settings]().Fields() {
		if f.Name != "Config" && (f.Tag.Get("sets") == "" || f.Tag.Get("name") == "" || f.Tag.Get("env") == "") {
			t.Errorf("%s needs the tags name, env and sets: %s", f.Name, f.Tag)
		}
	}
}
