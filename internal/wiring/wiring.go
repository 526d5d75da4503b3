// Package wiring lets a test hear what guards find out about how their handlers are put together,
// where that costs too much to look for at each request.
package wiring

import (
	"context"
	"sync/atomic"
)

type key struct{}

var listening atomic.Int64 // who listens: see [Listen]

// Listen has hear called with the cause of each mistake that is found at requests of the returned
// context, until stop is called. Hear may be called from several goroutines.
func Listen(ctx context.Context, hear func(cause string)) (listened context.Context, stop func()) {
	listening.Add(1)
	return context.WithValue(ctx, key{}, hear), func() { listening.Add(-1) }
}

// Heard returns what hears of the mistakes at a request of this context, or nil.
func Heard(ctx context.Context) (hear func(cause string)) {
	if listening.Load() > 0 {
		hear, _ = ctx.Value(key{}).(func(string))
	}
	return hear
}
