package linear

import (
	"context"
	"fmt"
	"slices"

	"github.com/stet-dev/stet"
)

// tells notes that the engine may say later that an execution had its effect which in is about: it
// waits until the record has no holder.
func (c *client) tells(in input) {
	in.verb, in.id = tells, c.id()
	c.h.add(clients, c.h.now(), in, output{word: failed})
}

// byFree reports whether a statement that it happened was refused by a record that says it did not.
func (o output) byFree(have *stet.Head) bool {
	return o.word == refused && have.State == stet.Retryable
}

// returned is a handler that has returned, after its time was over, and knows nothing.
func (c *client) returned(ctx context.Context, h held) {
	in, began := input{verb: returns, key: h.key, id: c.id(), owner: h.owner}, c.h.now()
	ctx, _ = in.asking(ctx)
	h.claim.Returned(ctx)
	c.h.add(c.number, began, in, output{word: failed}) // it does not say whether it was heard
}

// notice is a statement about the execution of h, which may be over and done with.
func (c *client) notice(ctx context.Context, h held, happened bool) {
	in := input{verb: resolve, key: h.key, id: c.id(), owner: h.owner, as: open, works: c.random.IntN(2) == 0}
	r := stet.Resolution{Now: in.works}
	if happened {
		in.as, in.works, in.body = done, false, fmt.Sprint("noticed ", in.id)
		r = stet.Resolution{Response: &stet.Response{Status: 200, Body: []byte(in.body)}}
	}
	began := c.h.now()
	ctx, a := in.asking(ctx)
	have, err := c.e.Operator().Resolve(ctx, c.h.id(h.key), stet.Execution{Fence: h.claim.Fence()}, r, stet.Note{Who: "provider", Why: "test"})
	out := output{word: worded(err), again: a.lost.Load()}
	c.h.add(c.number, began, in, out)
	if happened && (out.word == another || out.word == failed || out.byFree(&have)) {
		c.tells(in)
	}
}

// overtaken is a handler that works on after its key was freed and executed again, and comes back
// to a record that is about another execution, whose handler works on as well.
func (c *client) overtaken(ctx context.Context, key int) { // K01, K05
	doubt := func() *held {
		n := len(c.held)
		if c.begin(ctx, key); len(c.held) == n {
			return nil
		}
		h := c.held[n]
		c.settle(ctx, n, ending{unknown, true})
		return &h
	}
	first := doubt()
	if first == nil {
		return
	}
	c.resolve(ctx, input{key: key, as: open, works: true})
	if doubt() == nil {
		return
	}
	switch c.random.IntN(3) {
	case 0:
		c.returned(ctx, *first)
	case 1:
		c.notice(ctx, *first, true)
	case 2:
		c.settle(ctx, slices.Index(c.held, *first), ending{as: done})
	}
	c.resolve(ctx, input{key: key, as: open})
}
