package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
)

// One call sweeps, reaps, and runs what it is given. A loop that cannot run is told of at once, and
// one that panics comes again; neither stops the others. Run returns when all have ended, and not
// before.
func TestBackgroundRunsAllLoops(t *testing.T) { // N06
	synctest.Test(t, func(t *testing.T) {
		d, said := &due{state: stet.Running, backlog: 3}, &lines{}
		began, last := 0, time.Time{}
		broken := errors.New("a setting cannot be used")
		b := Background{Engine: engine(t, d), Log: slog.New(slog.NewTextHandler(said, nil)), Loops: []func(context.Context) error{
			func(context.Context) error { return broken },
			func(ctx context.Context) error {
				if began++; began < 3 {
					panic("of a loop")
				}
				<-ctx.Done()
				time.Sleep(time.Minute) // what it does has to be finished
				last = time.Now()
				return nil
			},
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		synctest.Wait()
		if text := said.String(); !strings.Contains(text, broken.Error()) || !strings.Contains(text, "of a loop") {
			t.Errorf("the log says %s", text)
		}
		time.Sleep(2 * time.Minute) // the bubble's clock
		synctest.Wait()
		d.mu.Lock()
		if d.backlog != 0 || began != 3 {
			t.Errorf("%d records are left, and a loop that panicked twice began %d times", d.backlog, began)
		}
		reaped := false
		for _, limit := range d.limits {
			reaped = reaped || limit == defaultReapBatch
		}
		if !reaped {
			t.Errorf("asked for %v records: none by the reaper", d.limits)
		}
		d.mu.Unlock()
		cancel()
		if err := <-ended; !errors.Is(err, broken) || last.IsZero() {
			t.Errorf("Run returned %v, and a loop had ended at %v", err, last)
		}
	})
}

// lines is what a log has.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
