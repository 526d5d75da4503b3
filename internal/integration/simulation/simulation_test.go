package simulation

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stet-dev/stet/internal/tier"
)

func TestMain(m *testing.M) {
	// The gate lives the same histories each time; a seed of 0 is another one in each run.
	checks, seed := "100", "1"
	if tier.Campaigns() {
		checks, seed = "400", "0"
	}
	if os.Getenv("STET_SOAK") != "" {
		checks, seed = "100000", "0"
	}
	// Unless the command line says other. To see a failure again, its seed is enough.
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.seed": seed, "rapid.steps": "50", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// What goes wrong around an engine never makes it break what it promises. I1, I2, I3, I6, I9, I10,
// I11, I13 .. I16; W2 .. W5, W8 .. W10, W13, W16 .. W21, W34
func TestSimulation(t *testing.T) {
	var seen counts
	rapid.Check(t, func(rt *rapid.T) { live(t, rt, setting{}, &seen) })
	for what, n := range map[string]int{"executions": seen.executed, "effects": seen.effects, "replays": seen.replayed,
		"overtaken holders": seen.fenced, "resolved unknowns": seen.resolved, "runs after an end of doubt or of a life": seen.again,
		"writes that came late": seen.late, "answers that were handed out unstored": seen.handed, "late answers that were adopted": seen.adopted,
		"notices that ended a doubt": seen.heeded, "notices about another execution": seen.unheeded, "results that no record took": seen.unplaced,
		"double effects": seen.doubled} {
		if n < 5 && tier.Campaigns() {
			t.Errorf("only %d %s: not much was put to the test", n, what)
		}
	}
	t.Logf("%+v", seen)
}

// live is one history.
func live(t *testing.T, rt *rapid.T, s setting, seen *counts) {
	bubble(t, rt, func(ctx context.Context) {
		w := newWorld(ctx, rt, s, seen)
		defer w.end()
		rt.Repeat(rapid.StateMachineActions(machine{w}))
		w.end()
		w.account()
	})
}

// bubble runs f where time is virtual. Rapid ends a check by a panic, which cannot leave a bubble
// by itself, and goes by where it was raised when it asks whether a shorter history fails as well:
// a history that ran out of what to draw is no failure.
func bubble(t *testing.T, rt *rapid.T, f func(ctx context.Context)) {
	var ended any
	synctest.Test(t, func(t *testing.T) {
		defer func() { ended = recover() }()
		f(t.Context())
	})
	switch {
	case ended == nil:
	case rt.Failed() && !strings.HasSuffix(fmt.Sprintf("%T", ended), ".invalidData"):
		panic(ended)
	default:
		panic(ended)
	}
}

// after is the bubble's time going by.
func after(d time.Duration) { <-time.After(d) }
