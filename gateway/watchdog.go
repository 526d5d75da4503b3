package gateway

import (
	"context"
	"sync"
	"time"
)

// watchdog ends an unguarded request, with the cause [context.DeadlineExceeded], if the upstream
// neither takes anything of it nor answers for the limit. A guarded request has its execution
// timeout. The time in which the client sends the body does not count; the server bounds it. An
// answer that has begun may last until the server has been draining for the limit.
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

// pause stops the time while the gateway waits for the client; resume begins it anew.
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

// answer notes that the header of the answer has come. An upgrade has no further limit, because
// such connections are not drained.
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

// left returns how long the request may still last.
func (w *watchdog) left() time.Duration {
	if !w.answered {
		return 0
	}
	if d, ok := w.p.Value(drainKey{}).(*drain); ok {
		if _, began := d.look(); !began.IsZero() {
			return w.limit - time.Since(began)
		}
	}
	return w.limit
}
