package gateway

import (
	"context"
	"sync"
	"time"
)

// watchdog ends a request that runs unguarded, with [context.DeadlineExceeded] for a cause, where the upstream takes nothing of it
// and answers nothing for a limit: a guarded one has its execution timeout. The time that the client takes for the body does not
// count; that is the server's to bound. An answer that has begun may last, until the server has been draining for the limit.
type watchdog struct {
	p     *attempt
	limit time.Duration

	mu       sync.Mutex
	timer    *time.Timer
	answered bool // the answer's header is here
	over     bool
}

func (w *watchdog) begin(a *attempt, limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.p, w.limit = a, limit
	w.timer = time.AfterFunc(limit, w.fire)
}

func (w *watchdog) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}

// pause stops the time while the client is waited for; resume lets it begin anew.
func (w *watchdog) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil && !w.answered {
		w.timer.Stop()
	}
}

func (w *watchdog) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil && !w.answered && !w.over {
		w.timer.Reset(w.limit)
	}
}

// answer notes that the answer's header has come. That of an upgrade has no further limit: such connections are not drained.
func (w *watchdog) answer(upgraded bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil {
		return
	}
	w.answered = true
	if w.timer.Stop(); !upgraded {
		w.timer.Reset(w.limit)
	}
}

func (w *watchdog) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch left := w.left(); {
	case w.over:
	case left > 0:
		w.timer.Reset(left)
	default:
		w.p.stop(context.DeadlineExceeded)
	}
}

// left is how long the request may still last.
func (w *watchdog) left() time.Duration {
	if !w.answered {
		return 0
	}
	d, _ := w.p.Value(drainKey{}).(*drain)
	if d == nil {
		return w.limit
	}
	began, ok := d.begun()
	if !ok {
		return w.limit
	}
	return w.limit - time.Since(began)
}
