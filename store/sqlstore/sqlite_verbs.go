package sqlstore

import (
	"context"
	"errors"

	"github.com/stet-dev/stet"
)

// Create stores r if its ID is free. A record that is there is found without waiting for those that write, so that a
// duplicate is answered at once even while a transaction of somebody else holds the file.
func (s *sqlite) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	o, err := createOp(ctx, &r)
	if err == nil {
		err = s.create(o)
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

// create looks before it writes: on the connection that writes where that is free, because its cache is warm; otherwise on
// another, beside whoever writes.
func (s *sqlite) create(o *op) error {
	if s.queue.lone(o) {
		return o.err
	}
	have, err := s.get(o.ctx, o.id)
	switch {
	case err == nil:
		o.have = have
		return stet.ErrExists
	case !errors.Is(err, stet.ErrNotFound):
		return err
	}
	o.looked = true
	return s.queue.do(o)
}

// Replace stores h, and b if it is not nil, if the record's Version is prev. What is kept of the instants is what the row
// says, not what h says.
func (s *sqlite) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	o, err := replaceOp(ctx, prev, &h, b)
	if err == nil {
		err = s.queue.do(o)
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
	return wrap("delete", s.queue.do(deleteOp(ctx, id, prev)))
}

func deleteOp(ctx context.Context, id stet.ID, prev stet.Version) *op {
	o := newOp(ctx, remove, &stet.Head{ID: id}, &stet.Body{})
	o.args = append(text.ID(make([]any, 0, 3), id), int64(prev))
	return o
}

func newOp(ctx context.Context, v verb, h *stet.Head, b *stet.Body) *op {
	o := &op{verb: v, ctx: ctx, id: h.ID, head: *h, size: len(b.Request) + len(b.Progress)}
	if b.Response != nil {
		o.size += len(b.Response.Body)
	}
	return o
}
