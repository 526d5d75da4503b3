package operate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// A status says that no process sweeps the store, to callers who see all of it, and only once that
// is plain.
func TestStatusSaysWhatIsNeglected(t *testing.T) { // N06
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, memstore.New(memstore.Config{}))
		s, err := operate.New(operate.Config{Engine: e})
		if err != nil {
			t.Fatal(err)
		}
		codes := func(c operate.Caller) (all []string) {
			t.Helper()
			status, err := s.For(c, nil).Overview(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range status.Warnings {
				all = append(all, w.Code)
			}
			return all
		}
		if _, err := e.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "acme", Key: "k"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute) // the bubble's clock: its lease is over for nine
		if all := codes(operate.Caller{Name: "kim"}); len(all) > 0 {
			t.Errorf("too early: %q", all)
		}
		time.Sleep(2 * time.Minute)
		if all := codes(operate.Caller{Name: "kim"}); len(all) != 1 || all[0] != "neglected" {
			t.Errorf("warnings: %q", all)
		}
		if all := codes(operate.Caller{Name: "lee", Scopes: []string{"acme"}}); len(all) > 0 {
			t.Errorf("one of a single scope is told %q", all)
		}
		if _, _, err := e.Operator().Sweep(t.Context(), "", 0); err != nil {
			t.Fatal(err)
		}
		if all := codes(operate.Caller{Name: "kim"}); len(all) > 0 {
			t.Errorf("once it is swept: %q", all)
		}
	})
}
