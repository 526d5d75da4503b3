package gateway

import (
	"cmp"
	"context"
	"net/http"
	"time"
)

// lastLook is how long an exchange whose time is over has to bring what is in the socket already,
// before the client is told. A process that was stopped finds the answer and the timeout together.
const lastLook = 100 * time.Millisecond

// maxLate bounds the exchanges of a gateway that are read on after their time. Further ones end
// with it.
const maxLate = 1024

// late is a guarded exchange on a goroutine of its own, so that the client need not wait for it.
// When its time is over, it is read on for [Config].LateAnswer: the answer is the run's result
// whenever it comes.
type late struct {
	g    *Gateway
	a    *attempt
	done chan any // gets what it panicked with, or nil
	died any      // ... which is it
}

// lasting is the ResponseWriter of a guarded request, as far as [late] needs it.
type lasting interface {
	GoOn() bool
	Returned(crashed bool)
}

// outlast forwards a guarded request that was not forwarded as a plain one, or whose time was over
// meanwhile. left is what is still to come of the body of a plain answer. It returns when the
// client has its answer.
func (g *Gateway) outlast(w http.ResponseWriter, r *http.Request, a *attempt, left int64) {
	held := a.Context
	l := &late{g: g, a: a, done: make(chan any, 1)}
	if a.asked != nil {
		a.connected.Store(true)
		a.asked.unpause()
	}
	a.Context, a.stop = context.WithCancelCause(context.WithoutCancel(held))
	if a.asked != nil {
		a.asked.unwatch = context.AfterFunc(a, a.asked.hangUp)
	}
	go func() {
		defer func() { l.done <- recover() }()
		if left > 0 {
			g.pass(w, a, left)
			return
		}
		g.reverse(w, r, a)
	}()
	if within(l, held.Done()) || !l.goOn(w, context.Cause(held)) {
		a.stop(nil)
		if l.died != nil {
			panic(l.died)
		}
	}
}

// within waits for the end of the exchange, and reports whether it came before over.
func within[T any](l *late, over <-chan T) bool {
	select {
	case l.died = <-l.done:
		return true
	case <-over:
		return false
	}
}

// goOn sees to an exchange whose time is over, because of cause. It returns true if the exchange
// goes on without the client, and false when it has ended.
func (l *late) goOn(w http.ResponseWriter, cause error) bool {
	if !l.a.looked && within(l, time.After(lastLook)) {
		return false
	}
	l.a.leave()
	own, ok := w.(lasting)
	ok = ok && l.a.connected.Load() // without a connection it is known what became of it
	if n := l.g.late.Add(1); !ok || n > maxLate {
		l.end(cause)
		l.g.late.Add(-1)
		return false
	}
	if !own.GoOn() { // the client receives what comes
		l.readOn(cause)
		l.g.late.Add(-1)
		return false
	}
	d, drains := l.a.Value(drainKey{}).(*drain)
	if drains {
		d.stay()
	}
	go func() {
		l.readOn(cause)
		if l.died != nil {
			l.g.warn(l.a, "the upstream's answer broke off after the time of its request", cmp.Or(l.a.cut, http.ErrAbortHandler))
		}
		own.Returned(l.died != nil)
		l.g.late.Add(-1)
		if drains {
			d.leave()
		}
	}()
	return true
}

// readOn waits for the end of the exchange for [Config].LateAnswer, or until the server cuts off what
// still runs.
func (l *late) readOn(cause error) {
	limit := time.NewTimer(cmp.Or(l.g.cfg.LateAnswer, l.a.route.Config.Policy.Lease))
	defer limit.Stop()
	var cut <-chan struct{}
	if d, drains := l.a.Value(drainKey{}).(*drain); drains {
		cut = d.over
	}
	select {
	case l.died = <-l.done:
		l.a.stop(nil)
		return
	case <-limit.C:
	case <-cut:
	}
	l.end(cause)
}

// end ends the exchange.
func (l *late) end(cause error) {
	l.a.stop(cause)
	l.died = <-l.done
}
