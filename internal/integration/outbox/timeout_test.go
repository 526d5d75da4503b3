package outbox

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet/outbox"
)

// A13: a handler that takes longer than Timeout has an unknown outcome, whether it heeds its
// context or not. The worker goes on, and says at the end that a handler still runs.
func TestTimeout(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		db.add(t, outbox.Message{Topic: "heeds"}, outbox.Message{Topic: "hangs"}, outbox.Message{Topic: "quick"})
		release, returned := make(chan struct{}), make(chan struct{})
		heeded := make(chan error, 1)
		events := make(chan outbox.Event, 10)
		w := db.worker(func(ctx context.Context, d *outbox.Delivery) outbox.Result {
			switch d.Topic {
			case "heeds":
				<-ctx.Done()
				heeded <- context.Cause(ctx)
				return outbox.Maybe(context.Cause(ctx))
			case "hangs":
				defer close(returned)
				<-release
			}
			return outbox.Delivered()
		})
		w.Concurrency, w.Timeout = 1, 300*time.Millisecond // the quick one has to be done within it
		w.Observe = func(e outbox.Event) { events <- e }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		for i, want := range []string{"unknown", "unknown", "done"} {
			if e := next(t, events, time.Minute); e.Result != want {
				t.Errorf("message %d: %+v", i, e)
			}
		}
		if cause := next(t, heeded, time.Minute); !strings.Contains(cause.Error(), "longer than Timeout") {
			t.Errorf("the handler's context ended with %v", cause)
		}
		cancel()
		if err := <-ended; !errors.Is(err, outbox.ErrDrain) {
			t.Errorf("a handler still runs, and Run says %v", err)
		}
		close(release)
		<-returned
		for _, m := range db.list(t)[:2] {
			if m.State != outbox.Unknown || len(m.Errors) != 1 || !strings.Contains(m.Errors[0].Error, "longer than Timeout") {
				t.Errorf("%s: %v", m.State, m.Errors)
			}
		}
	})
}
