// Package usable proves that a store can be used, in the way in which it will be: by writes. What
// can be read may still refuse each write, because of a right, a role, a setting or a disk.
package usable

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet"
)

// Prefix is what the keys of the proof's records begin with, in [stet.OwnScope].
const Prefix = "proof_"

// Action is that of its entry in the history.
const Action = "proof"

// Prove makes a record of Stet's own, changes, reads and deletes it, with noted also lists it and
// changes it with a note, which adds an entry to the history. The error says which step failed, and
// wraps the store's. A record that a proof leaves, because it was cut short, is removed by the
// reaper.
func Prove(ctx context.Context, s stet.Store, noted bool) error {
	p := &proof{store: s, noted: noted}
	for _, step := range []struct {
		does string
		do   func(context.Context) error
	}{
		{"make a record", p.create},
		{"change it", p.change},
		{"list it", p.list},
		{"read it", p.read},
		{"delete it", p.remove},
	} {
		if err := step.do(ctx); err != nil {
			if step.does != "make a record" {
				_ = s.Delete(ctx, p.head.ID, p.head.Version) // not after ctx: a store that hangs would hold it up; the reaper has it
			}
			return fmt.Errorf("the store cannot %s of Stet's own: %w", strings.Replace(step.does, "it", "a record", 1), err)
		}
	}
	return nil
}

type proof struct {
	store stet.Store
	noted bool
	head  stet.Head
}

var errOther = errors.New("it answered with another record than was written")

func (p *proof) create(ctx context.Context) error {
	h := stet.Head{ID: stet.ID{Scope: stet.OwnScope, Key: stet.Key(Prefix + strings.ToLower(rand.Text()))}, Version: 1, State: stet.Retryable,
		Cause: stet.CauseGivenUp, Attempt: 1, Rules: stet.Rules{Retain: time.Second}, DueIn: time.Second}
	got, err := p.store.Create(ctx, stet.Record{Head: h, Body: stet.Body{Request: []byte("proof")}})
	p.head = got.Head
	if err == nil && (got.ID != h.ID || got.Version != h.Version) {
		return errOther
	}
	return err
}

func (p *proof) change(ctx context.Context) error {
	h := p.head
	h.Version, h.DueIn = 2, time.Second
	if _, keeps := stet.As[stet.Historian](p.store); keeps && p.noted {
		h.Note = &stet.Note{Who: "stet", Why: "a proof that the store can be written", Action: Action}
	}
	got, err := p.store.Replace(ctx, p.head.Version, h, nil)
	if err == nil {
		p.head = got
	}
	return err
}

func (p *proof) list(ctx context.Context) error {
	l, lists := stet.As[stet.Lister](p.store)
	if !lists || !p.noted {
		return nil
	}
	_, _, err := l.List(ctx, stet.Query{Scope: stet.OwnScope, Limit: 1})
	return err
}

func (p *proof) read(ctx context.Context) error {
	got, err := p.store.Get(ctx, p.head.ID)
	if err == nil && (got.Version != p.head.Version || !slices.Equal(got.Request, []byte("proof"))) {
		return errOther
	}
	return err
}

func (p *proof) remove(ctx context.Context) error {
	return p.store.Delete(ctx, p.head.ID, p.head.Version)
}
