package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/rest"
)

// Background is all the loops of a process:
//
//	background := maintenance.Background{Engine: engine, Loops: []func(context.Context) error{
//		flow.Completer{Engine: engine, Flows: flows}.Run,
//		worker.Run,
//	}}
//	go background.Run(ctx)
type Background struct {
	// Engine has its store swept and reaped, as a [Sweeper] and a [Reaper] do by default. With nil,
	// Loops are all there is: where they have a Sweeper and a Reaper with settings of their own.
	Engine *stet.Engine
	// Loops run beside these. Each is the Run of a loop: it works until its context ends, and
	// returns nil then.
	Loops []func(ctx context.Context) error
	// Log gets an entry when a loop ends by itself, or panics; nil means [slog.Default].
	Log *slog.Logger
}

// again is the pause before a loop that has panicked is started anew.
const again = 10 * time.Second

// Run runs all loops until ctx ends, and returns when each of them has ended, with what they have
// returned. A loop that ends by itself, because a setting cannot be used, is logged at once, and
// the others go on. So does one that panics, which is started anew after 10 seconds.
func (b Background) Run(ctx context.Context) error {
	loops := b.Loops
	if b.Engine != nil {
		loops = append([]func(context.Context) error{Sweeper{Engine: b.Engine}.Run, Reaper{Engine: b.Engine}.Run}, loops...)
	}
	if b.Log == nil {
		b.Log = slog.Default()
	}
	ended := make([]error, len(loops))
	var running sync.WaitGroup
	for i, loop := range loops {
		running.Go(func() { ended[i] = b.keepRunning(ctx, loop) })
	}
	running.Wait()
	return errors.Join(ended...)
}

// keepRunning runs a loop until it ends without a panic.
func (b Background) keepRunning(ctx context.Context, loop func(context.Context) error) error {
	for {
		panicked, err := runOnce(ctx, loop)
		switch {
		case panicked:
			b.Log.Error("a background loop panicked, and is started anew", "error", err.Error())
			if rest.For(ctx, again) {
				continue
			}
		case ctx.Err() == nil:
			b.Log.Error("a background loop has ended, and does not run any more", "error", err)
		}
		return err
	}
}

// runOnce runs a loop, and makes an error of its panic.
func runOnce(ctx context.Context, loop func(context.Context) error) (panicked bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			panicked, err = true, fmt.Errorf("maintenance: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return false, loop(ctx)
}
