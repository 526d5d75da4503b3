package rest

import (
	"context"
	"math/rand/v2"
	"time"
)

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
