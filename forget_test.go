package stet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// trail is the whole history.
func trail(h *house) []stet.Change {
	h.t.Helper()
	all, next, err := h.Operator().History(h.t.Context(), stet.HistoryQuery{Limit: stet.MaxLimit})
	if err != nil || next != "" {
		h.t.Fatal(next, err)
	}
	return all
}

func TestEraseSaysWhoAndWhyAndNotWhom(t *testing.T) { // N10
	bubble(t, stet.Config{Pepper: []byte("salt")}, func(h *house) {
		ctx, op := h.t.Context(), h.Operator()
		id := stet.ID{Scope: "acme", Key: "order-1"}
		other := stet.ID{Scope: "acme-2", Key: "order-1"}
		const entries = stet.MaxLimit + 2
		for range entries {
			if err := op.Audit(ctx, id, stet.Note{Who: "kim", Why: "acme asked", Evidence: "order-1", Action: "reveal"}); err != nil {
				h.t.Fatal(err)
			}
		}
		if err := op.Audit(ctx, other, stet.Note{Who: "kim", Action: "reveal"}); err != nil {
			h.t.Fatal(err)
		}
		n, err := op.Erase(ctx, stet.HistoryQuery{Scope: "acme", After: "no cursor", Limit: 1}, stet.Note{Who: "ann", Why: "request 17"})
		if n != entries || err != nil {
			h.t.Fatalf("%d entries, %v", n, err)
		}
		all, _, err := op.History(ctx, stet.HistoryQuery{Who: "ann"})
		if err != nil || len(all) != 2 || all[0].Note != (stet.Note{Who: "ann", Why: "request 17", Evidence: "entries: 1002", Action: "erase"}) ||
			all[1].Note != (stet.Note{Who: "ann", Why: "request 17", Action: "erase"}) || all[0].ID != (stet.ID{}) || all[0].Tag != "" {
			h.t.Errorf("the entries of the erasure are %+v, %v", all, err)
		}
		if all, _, err := op.History(ctx, stet.HistoryQuery{Tag: h.Tag(id)}); len(all) != 0 || err != nil {
			h.t.Errorf("%d entries are still found by the tag, %v", len(all), err)
		}
		if all, _, err := op.History(ctx, stet.HistoryQuery{Scope: "acme-2"}); len(all) != 1 || err != nil {
			h.t.Errorf("%d entries of another scope, %v", len(all), err)
		}
	})
}

func TestEraseIsRefused(t *testing.T) { // N10
	bubble(t, stet.Config{}, func(h *house) {
		ctx, op := h.t.Context(), h.Operator()
		id := stet.ID{Scope: "acme", Key: "order-1"}
		if err := op.Audit(ctx, id, stet.Note{Who: "kim", Action: "reveal"}); err != nil {
			h.t.Fatal(err)
		}
		before := len(trail(h))
		for why, c := range map[string]struct {
			q    stet.HistoryQuery
			n    stet.Note
			want error
		}{
			"nobody's":             {stet.HistoryQuery{Who: "kim"}, stet.Note{Who: "ann", Why: "x"}, nil},
			"no reason":            {stet.HistoryQuery{Scope: "acme"}, stet.Note{Who: "ann", Why: " "}, stet.ErrNoReason},
			"no name":              {stet.HistoryQuery{Scope: "acme"}, stet.Note{Why: "x"}, stet.ErrNoReason},
			"quotes the scope":     {stet.HistoryQuery{Scope: "acme"}, stet.Note{Who: "ann", Why: "academe: acme's wish"}, stet.ErrQuoted},
			"quotes the id's key":  {stet.HistoryQuery{ID: id}, stet.Note{Who: "ann", Why: "for (order-1)"}, stet.ErrQuoted},
			"quotes it in another": {stet.HistoryQuery{ID: id}, stet.Note{Who: "ann", Why: "x", Evidence: "acme"}, stet.ErrQuoted},
			"quotes the tag":       {stet.HistoryQuery{Tag: h.Tag(id)}, stet.Note{Who: "ann", Why: h.Tag(id)}, stet.ErrQuoted},
		} {
			if n, err := op.Erase(ctx, c.q, c.n); n != 0 || err == nil || c.want != nil && !errors.Is(err, c.want) {
				h.t.Errorf("%s: %d, %v", why, n, err)
			} else if strings.Contains(err.Error(), "order-1") || strings.Contains(err.Error(), "acme") {
				h.t.Errorf("%s: the error says it: %v", why, err)
			}
		}
		if len(trail(h)) != before {
			h.t.Error("what was refused is in the history")
		}
		if n, err := op.Erase(ctx, stet.HistoryQuery{Scope: "acme"}, stet.Note{Who: "ann", Why: "acmesthesia"}); n != 1 || err != nil {
			h.t.Errorf("a part of a word is no quote: %d, %v", n, err)
		}
	})
}

// unwritten takes no entries.
type unwritten struct{ *memstore.Store }

var errDeaf = errors.New("it takes no entries")

func (unwritten) Append(context.Context, stet.Change) error { return errDeaf }

func TestNothingIsErasedWithoutItsEntry(t *testing.T) { // N10
	m := memstore.New(memstore.Config{})
	id := stet.ID{Scope: "acme", Key: "k"}
	if err := m.Append(t.Context(), stet.Change{ID: id, Note: stet.Note{Who: "kim", Action: "reveal"}}); err != nil {
		t.Fatal(err)
	}
	e, err := stet.New(unwritten{m}, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := e.Operator().Erase(t.Context(), stet.HistoryQuery{ID: id}, stet.Note{Who: "ann", Why: "x"}); n != 0 || !errors.Is(err, errDeaf) {
		t.Errorf("%d, %v", n, err)
	}
	if all, _, _ := m.History(t.Context(), stet.HistoryQuery{ID: id}); len(all) != 1 {
		t.Error("it was erased")
	}
	e, err = stet.New(forgetful{m}, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, erase := e.Operator().Erase(t.Context(), stet.HistoryQuery{ID: id}, stet.Note{Who: "ann", Why: "x"})
	_, trim := e.Operator().Trim(t.Context(), time.Hour, 1)
	if !errors.Is(erase, stet.ErrUnsupported) || !errors.Is(trim, stet.ErrUnsupported) {
		t.Errorf("a store that cannot: %v, %v", erase, trim)
	}
}

func TestTrimTellsHowMany(t *testing.T) { // S15
	synctest.Test(t, func(t *testing.T) {
		var told []int
		e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Observe: func(e stet.Event) {
			if e.Kind == stet.Trimmed {
				told = append(told, e.Count)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, op := t.Context(), e.Operator()
		for range stet.DefaultLimit + 5 {
			if err := op.Audit(ctx, stet.ID{}, stet.Note{Who: "kim", Action: "note"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(48 * time.Hour) // the bubble's clock
		if err := op.Audit(ctx, stet.ID{}, stet.Note{Who: "kim", Why: "young", Action: "note"}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{stet.DefaultLimit, 5, 0} {
			if n, err := op.Trim(ctx, 24*time.Hour, 0); n != want || err != nil {
				t.Errorf("%d, %v; want %d", n, err, want)
			}
		}
		if n, err := op.Trim(ctx, 0, 10); n != 0 || err == nil {
			t.Errorf("everything was to go, which is a mistake: %d, %v", n, err)
		}
		all, _, err := op.History(ctx, stet.HistoryQuery{})
		if err != nil || len(all) != 1 || all[0].Note.Why != "young" {
			t.Errorf("left: %+v, %v", all, err)
		}
		if !slices.Equal(told, []int{stet.DefaultLimit, 5}) {
			t.Errorf("told: %v", told)
		}
	})
}
