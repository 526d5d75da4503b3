// Package rest waits, for as long as a context lasts.
package rest

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d. It reports false when ctx ends first.
func For(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Doubled is the pause after n tries: the first pause, doubled by each try up to the longest.
func Doubled(first, longest time.Duration, n int) time.Duration {
	d := min(first, longest)
	for i := 0; i < n && d < longest; i++ {
		d = min(2*d, longest)
	}
	return d
}

// Spread varies a pause by a tenth either way, so that processes that were started together do not
// stay in step.
func Spread(d time.Duration) time.Duration {
	if d < 10 {
		return d
	}
	return d - d/10 + rand.N(d/5)
}

// How often those who wait for a change look for themselves: less and less.
const (
	FirstLook = 25 * time.Millisecond
	LastLook  = time.Second
)

// Look calls look at once and then again and again, first after about pause, until it reports a
// change or fails. It returns earlier when rung is closed, and with the error of ctx when that
// ends.
func Look(ctx context.Context, pause time.Duration, rung <-chan struct{}, look func() (changed bool, err error)) error {
	for ; ; pause = min(2*pause, LastLook) {
		changed, err := look()
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		if changed || err != nil {
			return err
		}
		select {
		case <-time.After(pause - pause/8 + rand.N(pause/4)): // not all at once
		case <-rung:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Answer is what a goroutine has to say to the one that waits for it.
type Answer[T any] struct {
	Value T
	Err   error
}

// Await returns the answer that comes. It returns earlier with the error of ctx when that ends. If
// both the answer and the end of ctx are there, the answer is worth more.
func Await[T any](ctx context.Context, answers <-chan Answer[T]) (value T, err error) {
	select {
	case a := <-answers:
		return a.Value, a.Err
	case <-ctx.Done():
	}
	select {
	case a := <-answers:
		return a.Value, a.Err
	default:
		return value, ctx.Err()
	}
}
