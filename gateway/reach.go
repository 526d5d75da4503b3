package gateway

import (
	"context"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet/internal/quiet"
)

// downAfter is how many attempts in a row have to end without a connection until the upstream counts
// as down.
const downAfter = 3

// UpstreamState is whether the upstream can be connected to.
type UpstreamState struct {
	Address   string    // host:port
	Known     bool      // false: no request has found it out yet
	DownSince time.Time // when the first attempt failed; zero: the upstream is up, if that is known
}

// UpstreamState returns what the requests of clients have found out; the Gateway sends none of its
// own. The upstream is down after three attempts in a row for which no connection came about, and up
// after any answer, whatever its status. Without requests, the state stays as it is. A new Gateway
// knows nothing, also if it replaces another one.
func (g *Gateway) UpstreamState() UpstreamState {
	t := g.reach.now.Load()
	s := UpstreamState{Address: g.reach.address, Known: t.answered || t.down()}
	if t.down() {
		s.DownSince = t.since
	}
	return s
}

// reach notes whether the upstream can be connected to.
type reach struct {
	address string
	log     *slog.Logger
	now     atomic.Pointer[tries]
}

// tries are the latest attempts. They do not change.
type tries struct {
	answered bool      // an answer came, at some time before those that failed
	failed   int       // attempts in a row for which no connection came about
	since    time.Time // when the first of them failed
}

func (t *tries) down() bool { return t.failed >= downAfter }

// answering is the state of an upstream that is up: while it lasts, an answer changes nothing.
var answering = &tries{answered: true}

func newReach(upstream *url.URL) *reach {
	r := &reach{address: address(upstream), log: slog.New(slog.DiscardHandler)}
	r.now.Store(new(tries))
	return r
}

// noteAnswer notes that an answer came.
func (r *reach) noteAnswer() {
	if r.now.Load() == answering {
		return
	}
	if was := r.now.Swap(answering); was.down() {
		r.log.Info("the upstream answers again", "upstream", r.address, "down_since", was.since.UTC())
	}
}

// noteFailure notes that no connection came about, unless the client went away meanwhile. If the
// time of its request is over, the failure counts, because connecting has used the time up.
func (r *reach) noteFailure(ctx context.Context, err error) {
	if ctx.Err() != nil && !timedOut(ctx) {
		return
	}
	for {
		was := r.now.Load()
		if was.down() {
			return
		}
		now := &tries{was.answered, was.failed + 1, was.since}
		if was.failed == 0 {
			now.since = time.Now()
		}
		if !r.now.CompareAndSwap(was, now) {
			continue
		}
		if now.down() {
			r.log.Warn("the upstream cannot be connected to", "upstream", r.address, "attempts", downAfter, "error", quiet.Text(err.Error()))
		}
		return
	}
}
