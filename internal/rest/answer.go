package rest

import "context"

// Answer is what a goroutine has to say to the one that waits for it.
type Answer[T any] struct {
	Value T
	Err   error
}

// Await returns the answer that comes. It returns earlier with the error of ctx when that ends, and
// with nothing when stop is closed. If both the answer and the end of ctx are there, the answer is
// worth more.
func Await[T any](ctx context.Context, stop <-chan struct{}, answers <-chan Answer[T]) (value T, err error) {
	select {
	case a := <-answers:
		return a.Value, a.Err
	case <-stop:
		return value, nil
	case <-ctx.Done():
	}
	select {
	case a := <-answers:
		return a.Value, a.Err
	default:
		return value, ctx.Err()
	}
}
