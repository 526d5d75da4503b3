// Package walk has what a walk over many records is made of: a store gathers a page, its caller
// goes from one page to the other, and works on several records at a time.
package walk

import (
	"context"
	"iter"
	"sync"
)

// Pages yields the pages of a listing, from the first to the last. list returns the page after a
// cursor, and the cursor of the next one; both are empty at the ends. An error is yielded with the
// page that list returned beside it, and ends the walk.
func Pages[T any](list func(after string) (page []T, next string, err error)) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		for after := ""; ; {
			page, next, err := list(after)
			if !yield(page, err) || err != nil || next == "" {
				return
			}
			after = next
		}
	}
}

// Workers run functions, at most a fixed number at a time.
type Workers struct {
	slots   chan struct{}
	running sync.WaitGroup
}

// NewWorkers returns workers that run at most n functions at a time.
func NewWorkers(n int) *Workers { return &Workers{slots: make(chan struct{}, n)} }

// Go runs f in a goroutine of its own, as soon as fewer than n run. If ctx ends first it reports
// false, and f does not run.
func (w *Workers) Go(ctx context.Context, f func()) bool {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil {
		<-w.slots
		return false
	}
	w.running.Go(func() {
		defer func() { <-w.slots }()
		f()
	})
	return true
}

// Wait waits until none of the functions runs.
func (w *Workers) Wait() { w.running.Wait() }
