package sqlite

import (
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/sqlstore"
	"github.com/stet-dev/stet/store/storetest"
	"github.com/stet-dev/stet/store/tierstore"
)

// The cache that a gateway has before SQLite by default changes no law.
func TestLawsBehindACache(t *testing.T) {
	storetest.Run(t, storetest.Backend{Send: backend.Send, Begin: func(t testing.TB, s stet.Store) (any, func() error, func() error) {
		back, _ := stet.As[owner](s)
		return backend.Begin(t, back)
	}, Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
		s, err := tierstore.New(tierstore.NewMemory(0), backend.Open(t, dir, clock), tierstore.Config{TTL: 5 * time.Second, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}})
}

// With notes of what runs a tier keeps the laws about transactions, too.
func TestLawsInFlight(t *testing.T) {
	storetest.Run(t, storetest.Backend{Send: backend.Send, Begin: func(t testing.TB, s stet.Store) (any, func() error, func() error) {
		back, _ := stet.As[owner](s)
		return backend.Begin(t, back)
	}, Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
		s, err := tierstore.New(tierstore.NewMemory(0), backend.Open(t, dir, clock), tierstore.Config{Clock: clock, InFlight: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}})
}

// B07: what a transaction made of a run is known when it has ended, also where the cache had noted
// that it runs, and where duplicates were told so in between.
func TestNoteOfARunEndsWithItsTransaction(t *testing.T) {
	errOther := errors.New("the caller's reason")
	for name, cache := range map[string]func() tierstore.Cache{
		"cache":  func() tierstore.Cache { return tierstore.NewMemory(0) },
		"shared": func() tierstore.Cache { return tierstore.Shared(memstore.New(memstore.Config{})) },
	} {
		for end, want := range map[string]stet.Verdict{"commit": stet.Replay, "answer lost": stet.Replay, "rollback": stet.Execute} {
			t.Run(name+", "+end, func(t *testing.T) {
				db := database(t, file(t))
				s, err := tierstore.New(cache(), over(t, db, sqlstore.Config{}), tierstore.Config{InFlight: true})
				if err != nil {
					t.Fatal(err)
				}
				engine, err := stet.New(s, stet.Config{})
				if err != nil {
					t.Fatal(err)
				}
				begin := func(want stet.Verdict) stet.Decision {
					t.Helper()
					d, err := engine.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: "s", Key: "k"}})
					if err != nil || d.Verdict != want {
						t.Fatalf("Begin: %v, %v; want %v", d.Verdict, err, want)
					}
					return d
				}
				claim := begin(stet.Execute).Claim
				begin(stet.InProgress)
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := claim.In(tx); err != nil {
					t.Fatal(err)
				}
				begin(stet.InProgress)
				if err := claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err != nil {
					t.Fatal(err)
				}
				begin(stet.InProgress) // and puts it in front again, if it may
				switch end {
				case "commit":
					err = claim.Confirm(t.Context(), tx.Commit())
				case "answer lost":
					if err := tx.Commit(); err != nil {
						t.Fatal(err)
					}
					err = claim.Confirm(t.Context(), errOther)
				case "rollback":
					if err := tx.Rollback(); err != nil {
						t.Fatal(err)
					}
					if err := claim.Confirm(t.Context(), errOther); !errors.Is(err, stet.ErrRolledBack) {
						t.Fatalf("Confirm of a rollback: %v", err)
					}
					begin(stet.InProgress)
					claim.NotExecuted(stet.CauseRolledBack)
					err = claim.Settle(t.Context(), stet.Outcome{})
				}
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // from the back, and then perhaps from the front
					if d := begin(want); d.Claim != nil {
						want = stet.InProgress
					}
				}
			})
		}
	}
}
