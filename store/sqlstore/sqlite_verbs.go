package sqlstore

import (
	"bytes"
	"context"
	"errors"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
)

// Limits of a group.
const (
	maxBatch      = 256     // writes in one transaction
	maxBatchBytes = 4 << 20 // of bodies in one transaction, unless a single one is larger
)

// op is one write. Its caller's goroutine prepares it.
type op struct {
	groupcommit.Call
	verb
	id     stet.ID
	head   stet.Head // create, replace
	prev   stet.Version
	args   []any // of the statement, but for the instants
	looked bool  // create: the name was free a moment ago
	limit  int   // reap

	got  stet.Head   // as stored; of the incumbent with [stet.ErrStale]
	have stet.Record // the incumbent with [stet.ErrExists]
	gone int         // reap: how many were removed
}

type verb uint8

const (
	create verb = iota + 1
	replaceHead
	replaceAll
	remove
	reap
	appendTo
)

// clone copies what belongs to the caller.
func (o *op) clone() {
	for i, a := range o.args {
		if b, ok := a.([]byte); ok {
			o.args[i] = bytes.Clone(b)
		}
	}
}

// Create stores r if its ID is free. A record that is there is found without waiting for those that write, so that a
// duplicate is answered at once even while a transaction of somebody else holds the file.
func (s *sqlite) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	o, err := createOp(ctx, &r)
	if err == nil {
		err = s.queue.Do(o)
	}
	return created(o, &r, err)
}

func createOp(ctx context.Context, r *stet.Record) (o *op, err error) {
	o = newOp(ctx, create, &r.Head, &r.Body)
	if o.args, err = text.Head(text.ID(make([]any, 0, 48), r.ID), &r.Head); err == nil {
		o.args = text.Body(o.args, r.ID, &r.Body)
	}
	return o, err
}

// created is what Create returns of r, after o ended with err.
func created(o *op, r *stet.Record, err error) (stet.Record, error) {
	switch {
	case err == nil:
		return stet.Record{Head: o.got, Body: r.Body}, nil
	case errors.Is(err, stet.ErrExists):
		return o.have, err
	}
	return stet.Record{}, wrap("create", err)
}

// look answers a duplicate before its write waits, beside the connection that writes. That connection looks itself if it is
// free, because its cache is warm: see [writer.begin].
func (s *sqlite) look(o *op) error {
	if o.verb != create {
		return nil
	}
	have, err := s.get(o.Ctx, o.id)
	switch {
	case err == nil:
		o.have = have
		return stet.ErrExists
	case !errors.Is(err, stet.ErrNotFound):
		return err
	}
	o.looked = true
	return nil
}

// Replace stores h, and b if it is not nil, if the record's Version is prev. What is kept of the instants is what the row
// says, not what h says.
func (s *sqlite) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	o, err := replaceOp(ctx, prev, &h, b)
	if err == nil {
		err = s.queue.Do(o)
	}
	return replaced(o, err)
}

func replaceOp(ctx context.Context, prev stet.Version, h *stet.Head, b *stet.Body) (o *op, err error) {
	v := replaceAll
	if b == nil {
		v, b = replaceHead, &stet.Body{}
	}
	o = newOp(ctx, v, h, b)
	o.prev = prev
	if o.args, err = text.Head(make([]any, 0, 56), h); err == nil && v == replaceAll {
		o.args = text.Body(o.args, h.ID, b)
	}
	return o, err
}

// replaced is what Replace returns, after o ended with err.
func replaced(o *op, err error) (stet.Head, error) {
	if err == nil || errors.Is(err, stet.ErrStale) {
		return o.got, err
	}
	return stet.Head{}, wrap("replace", err)
}

// Delete removes the record if its Version is prev.
func (s *sqlite) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	return wrap("delete", s.queue.Do(deleteOp(ctx, id, prev)))
}

func deleteOp(ctx context.Context, id stet.ID, prev stet.Version) *op {
	o := newOp(ctx, remove, &stet.Head{ID: id}, &stet.Body{})
	o.args = append(text.ID(make([]any, 0, 3), id), int64(prev))
	return o
}

func newOp(ctx context.Context, v verb, h *stet.Head, b *stet.Body) *op {
	o := &op{Call: groupcommit.Call{Ctx: ctx, Size: len(b.Request) + len(b.Progress)}, verb: v, id: h.ID, head: *h}
	if b.Response != nil {
		o.Size += len(b.Response.Body)
	}
	return o
}
