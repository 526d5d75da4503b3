package crash

import (
	"os"
	"slices"
	"testing"

	"github.com/stet-dev/stet/internal/tier"
)

var programs = []Program{atomic, allInOne, guard, flowRun, flowDo, promised}

func TestMain(m *testing.M) { os.Exit(Main(m, slices.Concat(programs, broken, lateAnswers))) }

func campaigns(t *testing.T, run func(t *testing.T, h *Harness, p Program, k Kind) Report) {
	h := New(t)
	for _, k := range Kinds {
		t.Run(k.Name, func(t *testing.T) {
			if k != SQLite {
				tier.Campaign(t, "processes are killed over SQLite in the gate")
			}
			for _, p := range programs {
				t.Run(p.Name, func(t *testing.T) {
					r := run(t, h, p, k)
					for _, err := range r.Wrong {
						t.Error(err)
					}
				})
			}
		})
	}
}

// I1, I2, I6, W1 to W7, W31, CR-05, CR-11, CR-14: whatever a process was at when it died, there is
// one effect, and the client's answer is what happened.
func TestKilledAtEveryPoint(t *testing.T) {
	campaigns(t, func(t *testing.T, h *Harness, p Program, k Kind) Report {
		r := h.EveryPoint(t, p, k, os.Getenv("STET_SOAK") != "")
		t.Logf("%d points; missed: %q", len(r.Points), r.Missed)
		if len(r.Points) < 6 || len(r.Missed)*4 > len(r.Points) {
			t.Errorf("%d points and %d missed: %q", len(r.Points), len(r.Missed), r.Points)
		}
		return r
	})
}

// Those who put things right die, too.
func TestKilledAgainAndAgain(t *testing.T) {
	count, soak := 4, os.Getenv("STET_SOAK") != ""
	if soak {
		count = 400
	}
	campaigns(t, func(t *testing.T, h *Harness, p Program, k Kind) Report {
		if k != SQLite && !soak {
			t.Skip("STET_SOAK=1 does so on each database")
		}
		rnd := tier.Rand(t)
		return h.Again(t, p, k, count, func() int { return 1 + rnd.IntN(30) })
	})
}
