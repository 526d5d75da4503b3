// Package tier says which tests turn back a change. make test is the gate: it decides alike each
// time on the same tree, without a network. What draws its cases, measures time, repeats or asks
// the network is a campaign, which make campaigns runs.
package tier

import (
	"os"
	"testing"
)

// Variable is what make campaigns sets in the environment.
const Variable = "STET_CAMPAIGNS"

// Campaign skips a test that is no part of the gate, and says why it is not.
func Campaign(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(Variable) == "" {
		t.Skipf("%s: make campaigns runs it (%s is not set)", why, Variable)
	}
}
