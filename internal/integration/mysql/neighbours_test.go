package mysql

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
)

// A row that another transaction holds, and that callers keep asking for, delays no group without
// it by more than 50 ms. What counts is what 95 of 100 neighbours wait at most, in turns with and
// without such callers, and the best of three measurements, because the machine may be busy with
// other things.
func TestAHeldRowDelaysNobodysGroup(t *testing.T) {
	tier.Campaign(t, "it compares how long writes take with and without a held row")
	const neighbours, rounds, most, measurements = 24, 6, 50 * time.Millisecond, 3
	db := migrated(t, fresh(t, testserver.NewMariaDB(t, "--version=8.0.36").Addr)) // a MySQL waits for a held row for a second
	s := over(t, db)
	changed := create(t, s, "changed")
	_, bound := begin(t, s, db)
	h, body := completed(changed, "in the transaction")
	if _, err := bound.Replace(t.Context(), changed.Version, h, body); err != nil {
		t.Fatal(err)
	}
	turn := func(contended bool) (waits []time.Duration, failed error) {
		done := make(chan struct{})
		var contenders, crowd sync.WaitGroup
		for range 8 {
			contenders.Go(func() {
				again := changed.Head
				for contended {
					select {
					case <-done:
						return
					default:
					}
					again.Version = draw()
					if _, err := s.Replace(within(t, 100*time.Millisecond), changed.Version, again, nil); err == nil {
						t.Error("a held row was changed")
					}
				}
			})
		}
		var mu sync.Mutex
		fails := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		}
		for range neighbours {
			crowd.Go(func() {
				for range rounds {
					began := time.Now()
					r, err := s.Create(within(t, 20*time.Second), sample())
					if err != nil {
						fails(err)
						return
					}
					next, answer := completed(r, "neighbour")
					if _, err := s.Replace(within(t, 20*time.Second), r.Version, next, answer); err != nil {
						fails(err)
					}
					mu.Lock()
					waits = append(waits, time.Since(began)/2)
					mu.Unlock()
				}
			})
		}
		crowd.Wait()
		close(done)
		contenders.Wait()
		return waits, failed
	}
	nearlyAll := func(d []time.Duration) time.Duration {
		if len(d) == 0 {
			return time.Hour
		}
		slices.Sort(d)
		return d[len(d)*95/100]
	}
	for n := 1; ; n++ {
		var alone, beside []time.Duration
		var failed error
		for range 3 {
			without, err1 := turn(false)
			with, err2 := turn(true)
			alone, beside, failed = append(alone, without...), append(beside, with...), errors.Join(failed, err1, err2)
		}
		with, without := nearlyAll(beside), nearlyAll(alone)
		switch said := fmt.Sprintf("beside a held row a write takes %v, and %v without; errors: %v", with, without, failed); {
		case failed == nil && with-without <= most:
			return
		case n == measurements:
			t.Fatal(said)
		default:
			t.Log(said)
		}
	}
}

// The server takes the groups that change heads alone: one that it refused would be rolled back,
// its connection thrown away, and its writes sent one by one; no test would see why it takes so
// long.
func TestGroupsOfHeadsAreTaken(t *testing.T) {
	const callers, rounds = 32, 12
	db := migrated(t, fresh(t, testserver.NewMariaDB(t).Addr)) // which counts for this test alone
	s := over(t, db)
	var heads [callers]stet.Head
	for i := range heads {
		r := named(fmt.Sprint(i))
		r.Request = fmt.Append(nil, "request ", i)
		made, err := s.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		heads[i] = made.Head
	}
	count := func(of string) (n int) {
		var name string
		if err := db.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE '"+of+"'").Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	groups, refused := count("Com_insert"), count("Com_rollback") // a Replace that goes alone is an UPDATE
	var wg sync.WaitGroup
	for i, h := range heads {
		wg.Go(func() {
			for range rounds {
				prev := h.Version
				h.Version = draw()
				got, err := s.Replace(within(t, 20*time.Second), prev, h, nil)
				if err != nil || got.Version != h.Version {
					t.Errorf("caller %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if groups, refused = count("Com_insert")-groups, count("Com_rollback")-refused; groups == 0 || refused > 0 {
		t.Errorf("of %d groups %d were refused", groups, refused)
	}
	for i, h := range heads {
		got, err := s.Get(t.Context(), h.ID)
		if err != nil || got.Version == h.Version || string(got.Request) != fmt.Sprint("request ", i) {
			t.Errorf("record %d has another body, or is as it was: %v", i, err)
		}
	}
}
