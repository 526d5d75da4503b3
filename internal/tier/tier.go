// Package tier says which tests turn back a change. make test is the gate: it decides alike each
// time on the same tree, without a network. What draws its cases, measures time, repeats or asks
// the network is a campaign, which make campaigns runs.
package tier

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Campaigns reports whether this is a run of make campaigns, which sets STET_CAMPAIGNS.
func Campaigns() bool { return os.Getenv("STET_CAMPAIGNS") != "" }

// Campaign skips a test that is no part of the gate, and says why it is not.
func Campaign(t testing.TB, why string) {
	t.Helper()
	if !Campaigns() {
		t.Skipf("%s: make campaigns runs it (STET_CAMPAIGNS=1)", why)
	}
}

// Seed is what a test draws by: in the gate that of its name, so that each run draws the same; in
// campaigns another each time, which the test logs and which STET_SEED repeats.
func Seed(t testing.TB) uint64 {
	t.Helper()
	switch text := os.Getenv("STET_SEED"); {
	case text != "":
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("STET_SEED: %v", err)
		}
		return seed
	case !Campaigns():
		name := fnv.New64a()
		_, _ = name.Write([]byte(t.Name()))
		return name.Sum64()
	}
	seed := rand.Uint64()
	t.Logf("STET_SEED=%d draws the same again", seed)
	return seed
}

// Rand draws by [Seed]. It is for one goroutine.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}

// Took fails a campaign in which something took longer than most. In the gate it fails nothing: how
// long something takes there is how busy the machine is.
func Took(t testing.TB, what string, took, most time.Duration) {
	t.Helper()
	if Campaigns() && took > most {
		t.Errorf("%s took %s, at most %s is wanted", what, took, most)
	}
}
