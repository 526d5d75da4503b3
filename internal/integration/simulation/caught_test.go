package simulation

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tier"
	"pgregory.net/rapid"
)

// flaws break a promise each. What they break is not what is under test, but the histories are:
// they have to come across it.
var flaws = []struct {
	name    string
	setting setting
}{
	{"writes without compare-and-set", setting{overwrite: true}},
	{"a store that drops what is alive", setting{evict: true}},
	{"a reconciler that takes an absence for a proof", setting{settle: time.Millisecond}},
	{"a release of what may have happened", setting{written: func(h *stet.Head) {
		if h.State == stet.Unknown {
			h.State, h.DueIn = stet.Retryable, h.Rules.Retain
		}
	}}},
	{"a lapsed lease that is taken for a proof", setting{read: func(h *stet.Head) { h.Rules.OnLapse = stet.LapseReexecute }}},
	{"a lease that is not looked at", setting{read: func(h *stet.Head) {
		if h.State == stet.Running {
			h.DueAt, h.Rules.OnLapse = h.AsOf, stet.LapseReexecute
		}
	}}},
	{"a fingerprint that is not compared", setting{read: func(h *stet.Head) { h.Fingerprint.Recipe, h.Fingerprint.Sum = "", [32]byte{} }}},
	{"a doubt that ends without a reason", setting{written: func(h *stet.Head) {
		if h.State == stet.Completed {
			h.Note = nil
		}
	}}},
}

// promise is in what is said of a broken one. Which one breaks first is a matter of chance.
var promise = regexp.MustCompile(`\b[IW]\d+: `)

// Histories find what is broken, and shrink.
func TestLivesFindWhatIsBroken(t *testing.T) {
	tier.Campaign(t, "it draws until it has found each flaw")
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "250ms", "rapid.checks": "5000"} {
		was := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(name, was) })
	}
	for _, f := range flaws {
		t.Run(f.name, func(t *testing.T) {
			r := &recorder{TB: t}
			rapid.Check(r, func(rt *rapid.T) { live(t, rt, f.setting, &counts{}) })
			if !promise.MatchString(r.said) {
				t.Errorf("it was not found: %s", r.said)
			}
			first, _, _ := strings.Cut(r.said, "\n")
			t.Logf("%d actions: %s", r.actions, first)
		})
	}
}

// recorder takes down what a check says instead of failing.
type recorder struct {
	rapid.TB
	failed  bool
	said    string // first
	actions int    // of the shortest history
}

func (r *recorder) Errorf(format string, args ...any) {
	if !r.failed {
		r.said = fmt.Sprintf(format, args...)
	}
	r.failed = true
}

func (r *recorder) Logf(format string, args ...any) {
	if strings.Contains(fmt.Sprintf(format, args...), "draw action:") {
		r.actions++
	}
}

func (r *recorder) Error(args ...any)                 { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Log(args ...any)                   { r.Logf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...) }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...) }
func (r *recorder) Fail()                             { r.failed = true }
func (r *recorder) FailNow()                          { r.failed = true }
func (r *recorder) Failed() bool                      { return r.failed }
