package observe

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// A snoozed record is counted as such, and raises no alert until the snooze ends.
func TestSnoozed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []stet.Key{"one", "two"} {
			d, err := e.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "acme", Key: key}})
			if err != nil {
				t.Fatal(err)
			}
			d.Claim.Unknown("panic")
			if err := d.Claim.Settle(t.Context(), stet.Outcome{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		is := func(oldest time.Duration, snoozed, dead int) {
			t.Helper()
			all, age, err := tallyUnknown(t.Context(), e.Operator())
			if err != nil || age.Round(time.Second) != oldest || all.Snoozed != snoozed || all.Dead != dead {
				t.Errorf("%+v, %s, %v", all, age, err)
			}
		}
		is(2*time.Minute, 0, 0)
		h, err := e.Get(t.Context(), stet.ID{Scope: "acme", Key: "one"})
		if err == nil {
			_, err = e.Operator().Snooze(t.Context(), h.ID, h.Version, time.Hour, stet.Note{Who: "kim", Why: "asked the bank"})
		}
		if err != nil {
			t.Fatal(err)
		}
		is(time.Minute, 1, 0)
		time.Sleep(time.Hour)
		is(62*time.Minute, 0, 0)

		h, err = e.Get(t.Context(), h.ID)
		if err == nil {
			_, _, err = e.Operator().Probing(t.Context(), &h.Head, stet.Never, &stet.Note{Who: "r", Why: "8 probes"})
		}
		if err != nil {
			t.Fatal(err)
		}
		is(61*time.Minute, 0, 1) // a dead letter has an alert of its own
	})
}
