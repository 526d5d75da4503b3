// Package wiring lets a test hear what guards find out about how their handlers are put together,
// where that costs too much to look for at each request.
package wiring

import (
	"context"
	"sync/atomic"
)

type key struct{}

var listening atomic.Int64 // calls of [Listen] that go on

// Listen has hear called at each request of the returned context at which http.TimeoutHandler stands
// within a guard, until stop is called. Hear may be called from several goroutines.
func Listen(ctx context.Context, hear func()) (listened context.Context, stop func()) {
	listening.Add(1)
	return context.WithValue(ctx, key{}, hear), func() { listening.Add(-1) }
}

// Heard returns what hears of the mistake at a request of this context, or nil.
func Heard(ctx context.Context) (hear func()) {
	if listening.Load() > 0 {
		hear, _ = ctx.Value(key{}).(func())
	}
	return hear
}
