// Package model holds the life of one key as a model that is searched in full: every order of what racing requests, late
// holders, crashes, sweepers, reconcilers and reapers can do. It has no code; its test runs spin (Debian: spin) and a C compiler.
package model

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// search runs the model with some rules switched, and returns what the search found.
func search(t *testing.T, switches ...string) string {
	t.Helper()
	spin, err := exec.LookPath("spin")
	if err != nil {
		if os.Getenv("REQUIRE_SERVERS") != "" {
			t.Fatal("spin is not installed: apt-get install spin")
		}
		t.Skip("spin is not installed: apt-get install spin")
	}
	dir := t.TempDir()
	text, err := os.ReadFile("life.pml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "life.pml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	var args []string
	for _, s := range switches {
		args = append(args, "-D"+s)
	}
	run(spin, append(args, "-a", "life.pml")...)
	run("gcc", "-O2", "-DSAFETY", "-DNOCLAIM", "-DMEMLIM=3072", "-o", "pan", "pan.c")
	return run(filepath.Join(dir, "pan"), "-m100000")
}

func TestPromisesHold(t *testing.T) { // I1, I2, I3, I10, I14
	for _, switches := range [][]string{nil, {"ANSWER=1"}, {"REQUESTS=2", "ANSWER=1"}} {
		began := time.Now()
		out := search(t, switches...)
		if !strings.Contains(out, "errors: 0") || strings.Contains(out, "truncated") || strings.Contains(out, "max search depth too small") {
			t.Errorf("%v:\n%s", switches, out)
		}
		t.Logf("%v: %s, %s", switches, states(out), time.Since(began).Truncate(time.Millisecond))
	}
}

func states(out string) string {
	for line := range strings.Lines(out) {
		if strings.HasSuffix(strings.TrimSpace(line), "states, stored") {
			return strings.TrimSpace(line)
		}
	}
	return "no states"
}

// TestEveryRuleIsNeeded drops one rule after the other: each has to be missed.
func TestEveryRuleIsNeeded(t *testing.T) {
	for rule, broken := range map[string]string{
		"FENCING":       "",           // an overtaken holder writes over somebody's result, or frees the key
		"LAPSE_UNKNOWN": "effects<=1", // a lapsed lease runs again
		"PROOF":         "effects<=1", // what may have happened frees the key
		"KEEP_LIVE":     "effects<=1", // retention ends a running record
		"SETTLE":        "effects<=1", // no trace is taken for proof
		"STORE_FIRST":   "answered",   // an answer leaves, and is not what is stored
	} {
		t.Run(rule, func(t *testing.T) {
			out := search(t, rule+"=0")
			if !strings.Contains(out, "assertion violated") || !strings.Contains(out, broken) {
				t.Errorf("without this rule nothing breaks:\n%s", out)
			}
		})
	}
}
