package tablestore

import (
	"context"
	"errors"

	"github.com/stet-dev/stet"
)

// Driver is what the verbs of one store do, or those of a store within a transaction. W is a
// pointer to a type that embeds [Write].
type Driver[W Item] struct {
	New    func() W
	Pack   func(w W) error // makes ready what is sent; after an error nothing is
	Do     func(w W) error
	Get    func(ctx context.Context, id stet.ID) (stet.Record, error) // heeds [stet.MaxBody]
	Append func(ctx context.Context, c *stet.Change) error
	Wrap   func(op string, err error) error
}

// Item is a pointer to a type that embeds [Write].
type Item interface{ write() *Write }

// Verbs are the verbs on single records, and what else writes.
type Verbs[W Item] struct{ driver Driver[W] }

// NewVerbs returns the verbs of a driver.
func NewVerbs[W Item](d Driver[W]) Verbs[W] { return Verbs[W]{d} }

// Get returns the record, or [stet.ErrNotFound].
func (v *Verbs[W]) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	r, err := v.driver.Get(ctx, id)
	return r, v.driver.Wrap("get", err)
}

// Create stores r if its ID is free. A record that is there is found without waiting for a
// transaction that changes it.
func (v *Verbs[W]) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	own := v.driver.New()
	w := own.write()
	w.Verb, w.Head, w.Body = Create, r.Head, r.Body
	err := v.do(ctx, "create", own)
	switch {
	case err == nil:
		return stet.Record{Head: w.Got.Head, Body: r.Body}, nil
	case !errors.Is(err, stet.ErrExists):
		return stet.Record{}, err
	}
	have := w.Seen
	if have == nil { // else it was left while it waited, and Got is the queue's
		have = &w.Got
	}
	most := stet.MaxBody(ctx)
	if most > stet.SmallBody && have.Left > 0 && have.Left <= most {
		return v.seen(ctx, r, err)
	}
	r = *have
	r.Body = r.UpTo(most)
	return r, err
}

// seen returns the record that a Create has met, with its body, which that has left: a statement
// that may be one of a group reads small ones only.
func (v *Verbs[W]) seen(ctx context.Context, r stet.Record, exists error) (stet.Record, error) {
	have, err := v.Get(ctx, r.ID)
	switch {
	case errors.Is(err, stet.ErrNotFound): // it was removed meanwhile
		return v.Create(ctx, r)
	case err != nil:
		return stet.Record{}, err
	}
	return have, exists
}

// Replace stores h, and b if it is not nil, if the record's Version is prev; with a Note, and its
// entry in the history, at once.
func (v *Verbs[W]) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	own := v.driver.New()
	w := own.write()
	w.Verb, w.Head, w.Prev = ReplaceHead, h, prev
	if b != nil {
		w.Verb, w.Body = ReplaceAll, *b
	}
	err := v.do(ctx, "replace", own)
	if err == nil || errors.Is(err, stet.ErrStale) {
		return w.Got.Head, err
	}
	return stet.Head{}, err
}

// Delete removes the record if its Version is prev.
func (v *Verbs[W]) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	own := v.driver.New()
	w := own.write()
	w.Verb, w.Head.ID, w.Prev = Remove, id, prev
	return v.do(ctx, "delete", own)
}

func (v *Verbs[W]) do(ctx context.Context, op string, own W) error {
	w := own.write()
	w.Ctx, w.Size = ctx, len(w.Body.Request)+len(w.Body.Progress)
	if r := w.Body.Response; r != nil {
		w.Size += len(r.Body)
	}
	err := v.driver.Pack(own)
	if err == nil {
		err = v.driver.Do(own)
	}
	return v.driver.Wrap(op, err)
}

// Append adds an entry that tells of no change.
func (v *Verbs[W]) Append(ctx context.Context, c stet.Change) error {
	return v.driver.Wrap("append", v.driver.Append(ctx, &c))
}
