// Package model holds the life of one key as a model that is searched in full: every order of what
// racing requests, late holders, crashes, sweepers, reconcilers, reapers, completers, late notices
// and late messages can do. It has no code; its test runs spin (Debian: spin) and a C compiler.
package model

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/tier"
)

// search runs the model with some rules switched, compiled as far as it pays, and returns what the
// search found.
func search(t *testing.T, optimised string, switches ...string) string {
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
	run("gcc", optimised, "-DSAFETY", "-DNOCLAIM", "-DMEMLIM=3072", "-o", "pan", "pan.c")
	return run(filepath.Join(dir, "pan"), "-m100000")
}

// resumed: records have recovery points, and a completer goes on with those that were left.
var resumed = []string{"RESUME=1", "REQUESTS=2", "COMPLETERS=1"}

// noticed: a provider's notice, which comes late and comes again, is what ends a doubt. late:
// copies of a request's write land after it was taken back, and after the record was removed.
// overridden: an operator frees a key whose effect was had, or is still to come.
var (
	noticed    = []string{"NOTICES=1", "RECONCILERS=0"}
	late       = []string{"LATE=1", "REQUESTS=2"}
	overridden = with(noticed, "OVERRIDE=1", "REQUESTS=2")
)

func with(switches []string, more ...string) []string { return slices.Concat(switches, more) }

func TestPromisesHold(t *testing.T) { // I1, I2, I3, I10, I14, A01, A14, K01, K02, K03
	tier.Campaign(t, "the model is no code of the product")
	for _, switches := range [][]string{nil, {"ANSWER=1"}, {"ATOMIC=1"}, resumed, noticed, late, {"LATE=1", "NOTICES=1", "RECONCILERS=0", "REQUESTS=2"},
		with(noticed, "NAMES=BY_VERSION"), with(noticed, "NAMES=BY_INSTANT"), with(noticed, "NAMES=BY_KEY"), overridden,
		{"RARE=1", "REQUESTS=2"}, {"RARE=1", "RESUME=1", "REQUESTS=1", "COMPLETERS=1"}} {
		t.Run(strings.Join(switches, ","), func(t *testing.T) {
			t.Parallel() // a search has one thread
			began := time.Now()
			out := search(t, "-O2", switches...)
			if !strings.Contains(out, "errors: 0") || strings.Contains(out, "truncated") || strings.Contains(out, "max search depth too small") {
				t.Errorf("%s", out)
			}
			t.Logf("%s, %s", states(out), time.Since(began).Truncate(time.Millisecond))
		})
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

// TestEveryRuleIsNeeded drops one rule after the other: each has to be missed. The last few are the
// rule before, by which a notice named its attempt alone, and the names that are worth too little.
func TestEveryRuleIsNeeded(t *testing.T) {
	tier.Campaign(t, "the model is no code of the product")
	for _, c := range []struct {
		rule, broken string
		with         []string
	}{
		{"FENCING", "", nil},                                               // an overtaken holder writes over another's result, or frees the key
		{"LAPSE_UNKNOWN", "effects<=1", nil},                               // a lapsed lease runs again
		{"PROOF", "effects<=1", nil},                                       // what may have happened frees the key
		{"KEEP_LIVE", "effects<=1", nil},                                   // retention ends a running record
		{"SETTLE", "effects<=1", nil},                                      // no trace is taken for proof
		{"STORE_FIRST", "answered", nil},                                   // an answer leaves, and is not what is stored
		{"DOUBT", "effects<=1", resumed},                                   // a run that goes on makes a call that may have been made
		{"LEARN", "effects<=1", resumed},                                   // a recovery point does not hold what was learnt before it
		{"SETTLE", "effects<=1", resumed},                                  // a phase is vouched for by no trace of it
		{"FENCING", "effects<=1", []string{"ATOMIC=1"}},                    // a transaction is committed whose run was given up
		{"ADOPT", "stored==held", nil},                                     // what a probe made up takes the place of the handler's answer
		{"TELL", "loud", overridden},                                       // two effects, which are not told
		{"TOMBSTONE", "undone", late},                                      // a copy of a write that was taken back leaves a doubt about what never ran
		{"", "effects<=1", with(noticed, "NAMES=BY_ATTEMPT", "ASSERTS=0")}, // that nothing happened, and that in another life
		{"", "acted>>fence", with(noticed, "NAMES=BY_ATTEMPT")},            // that it happened, and that in another life
		{"", "effects<=1", with(noticed, "NAMES=BY_KEY", "KEY_FREES=1")},   // that nothing happened, and that in an earlier attempt
		{"", "effects<=1", with(noticed, "NAMES=BY_NOTHING", "ASSERTS=0")},
		{"", "acted>>fence", with(overridden, "NAMES=BY_NOTHING")}, // that an earlier execution had its effect ends the present one
	} {
		switches := c.with
		if c.rule != "" {
			switches = with([]string{c.rule + "=0"}, c.with...)
		}
		t.Run(strings.Join(switches, ","), func(t *testing.T) {
			t.Parallel()
			out := search(t, "-O0", switches...)
			if !strings.Contains(out, "assertion violated") || !strings.Contains(out, c.broken) {
				t.Errorf("without this rule nothing breaks:\n%s", out)
			}
		})
	}
}
