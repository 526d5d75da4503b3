package stet_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// forgetful is a store with the five verbs alone.
type forgetful struct{ stet.Store }

func TestAuditAddsAnEntryAndChangesNothing(t *testing.T) { // D02
	bubble(t, stet.Config{Pepper: []byte("salt")}, func(h *house) {
		ctx := h.t.Context()
		leave(h, stet.Unknown)
		id, before := request("k").ID, h.record("k")
		gone, leave := context.WithCancel(ctx)
		leave() // who was shown something and went away was shown it all the same
		for _, c := range []struct {
			id stet.ID
			n  stet.Note
		}{{id, stet.Note{Who: "ann", Action: "reveal"}}, {stet.ID{}, stet.Note{Who: "192.0.2.1", Why: "wrong token", Action: "login-refused"}}} {
			if err := h.Operator().Audit(gone, c.id, c.n); err != nil {
				h.t.Fatal(err)
			}
			got, _, err := h.Operator().History(ctx, stet.HistoryQuery{Who: c.n.Who})
			if err != nil || len(got) != 1 || got[0].Note != c.n || got[0].ID != c.id || got[0].From != 0 || got[0].To != 0 || got[0].Action() != c.n.Action {
				h.t.Errorf("%+v, %v", got, err)
			}
			if want := map[bool]string{true: h.Tag(id)}[c.id == id]; got[0].Tag != want {
				h.t.Errorf("the entry's tag is %q, want %q", got[0].Tag, want)
			}
		}
		if h.record("k").Version != before.Version {
			h.t.Error("the record was changed")
		}
		for _, n := range []stet.Note{{}, {Who: "ann"}, {Action: "reveal"}, {Who: " \t", Action: "reveal"}} {
			if err := h.Operator().Audit(ctx, id, n); err == nil {
				h.t.Errorf("%+v is an entry", n)
			}
		}
		if err := h.Operator().AuditIn(ctx, "no transaction", id, stet.Note{Who: "ann", Action: "note"}); !errors.Is(err, stet.ErrForeignTx) {
			h.t.Errorf("a store that joins no transactions: %v", err)
		}
	})
}

func TestAuditOfAStoreThatCannot(t *testing.T) { // D02
	synctest.Test(t, func(t *testing.T) {
		n := stet.Note{Who: "ann", Action: "reveal"}
		for _, c := range []struct {
			store stet.Store
			want  error
			after time.Duration
		}{{forgetful{memstore.New(memstore.Config{})}, stet.ErrUnsupported, 0}, {hung{memstore.New(memstore.Config{})}, context.DeadlineExceeded, stet.DefaultStoreTimeout}} {
			e, err := stet.New(c.store, stet.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if began, err := time.Now(), e.Operator().Audit(t.Context(), stet.ID{}, n); !errors.Is(err, c.want) || time.Since(began) != c.after {
				t.Errorf("%T: %v after %s", c.store, err, time.Since(began))
			}
		}
	})
}
