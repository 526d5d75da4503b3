package stet_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// gate is what [stet.Request.Admit] asks: how often it was, and what became of the keys.
type gate struct{ asked, made, not int }

func (g *gate) admit(context.Context) (func(bool), error) {
	g.asked++
	return func(made bool) {
		if made {
			g.made++
		} else {
			g.not++
		}
	}, nil
}

var errShut = errors.New("shut")

func (g *gate) shut(context.Context) (func(bool), error) {
	g.asked++
	return nil, errShut
}

func (h *house) gated(key string, admit func(context.Context) (func(bool), error)) stet.Request {
	q := request(key)
	q.Admit = admit
	return q
}

// TestAdmitIsAskedOfNewKeys: and of nothing else; what it refuses leaves no trace.
func TestAdmitIsAskedOfNewKeys(t *testing.T) { // E01, E02
	bubble(t, stet.Config{}, func(h *house) {
		g := &gate{}
		if _, err := h.Begin(h.t.Context(), h.gated("k", g.shut)); err != errShut || g.asked != 1 {
			h.t.Fatalf("%v, asked %d times", err, g.asked)
		}
		if _, err := h.Get(h.t.Context(), request("k").ID); !errors.Is(err, stet.ErrNotFound) {
			h.t.Fatalf("something was stored: %v", err)
		}
		d := h.begin(h.gated("k", g.admit), stet.Execute)
		if g.asked != 2 || g.made != 1 {
			h.t.Fatalf("%+v", *g)
		}
		h.begin(h.gated("k", g.shut), stet.InProgress)
		q := other("k")
		q.Admit = g.shut
		h.begin(q, stet.Mismatch)
		d.Claim.NotExecuted("x")
		h.settle(d.Claim)
		h.settle(h.begin(h.gated("k", g.shut), stet.Execute).Claim) // a retry of the same life
		h.begin(h.gated("k", g.shut), stet.Replay)
		look := h.gated("absent", g.shut)
		look.LookupOnly = true
		h.begin(look, stet.Absent)
		if g.asked != 2 {
			h.t.Errorf("asked %d times, of one new key that was refused once", g.asked)
		}
		after(stet.DefaultRetain)
		if _, err := h.Begin(h.t.Context(), h.gated("k", g.shut)); err != errShut {
			h.t.Errorf("a new life was not asked for: %v", err)
		}
		h.begin(h.gated("k", g.admit), stet.Execute)
		if g.made != 2 || g.not != 0 {
			h.t.Errorf("%+v", *g)
		}
	})
}

// TestAdmittedAndNotMade: who loses the race, and whose write was refused, gives back what it took;
// whose write may have happened does not, and no request takes twice for one key.
func TestAdmittedAndNotMade(t *testing.T) { // E01
	bubble(t, stet.Config{}, func(h *house) {
		g := &gate{}
		race := func(ctx context.Context) (func(bool), error) {
			h.begin(request("raced"), stet.Execute)
			return g.admit(ctx)
		}
		h.begin(h.gated("raced", race), stet.InProgress)
		if g.asked != 1 || g.not != 1 {
			h.t.Errorf("the race was lost: %+v", *g)
		}
		*g = gate{}
		h.store.LoseReplies(2)
		h.begin(request("first write"), stet.Execute)
		h.begin(h.gated("answer lost", g.admit), stet.Execute)
		if g.asked != 1 || g.made != 1 {
			h.t.Errorf("an answer was lost: %+v", *g)
		}
		*g = gate{}
		h.store.LoseReplies(1)
		if _, err := h.Begin(h.t.Context(), h.gated("lost", g.admit)); !errors.Is(err, stet.ErrUnsettled) || g.asked != 1 || g.made != 1 {
			h.t.Errorf("the write may have happened: %v, %+v", err, *g)
		}
		h.store.Up()
	})
	full, err := stet.New(memstore.New(memstore.Config{MaxKeys: 1}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{}
	for _, key := range []string{"first", "second"} {
		q := request(key)
		q.Admit = g.admit
		_, err = full.Begin(t.Context(), q)
	}
	if !errors.Is(err, stet.ErrFull) || g.made != 1 || g.not != 1 {
		t.Errorf("there was no room: %v, %+v", err, *g)
	}
}
