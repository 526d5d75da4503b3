// Package rest waits, for as long as a context lasts.
package rest

import (
	"context"
	"time"
)

// For waits for d. It reports false when ctx ends first.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
