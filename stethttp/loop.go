package stethttp

import (
	"strconv"

	"github.com/stet-dev/stet"
)

// What a gateway tells its upstream of the run.
const (
	attemptHeader = "Stet-Attempt"
	fenceHeader   = "Stet-Fence"
)

// metItself reports whether the run that the request has met is the one that it is itself part of: it came through another guard on
// the same record before, or through this one. It would wait for itself.
func (x *exchange) metItself(h *stet.Head) bool {
	if h.State != stet.Running {
		return false
	}
	if c := stet.ClaimFrom(x.r.Context()); c != nil && c.ID() == x.id && c.Fence() == h.Fence() {
		return true
	}
	attempt, fence := x.r.Header[attemptHeader], x.r.Header[fenceHeader]
	return len(attempt) == 1 && len(fence) == 1 && attempt[0] == strconv.Itoa(h.Attempt) && fence[0] == strconv.FormatInt(h.Fence(), 10)
}

// reportLoop names the cause where the request has met itself.
func (x *exchange) reportLoop(h *stet.Head, p *Problem) {
	if x.metItself(h) {
		p.Detail = loopDetail
		x.attempt = h.Attempt
		x.miswired(causeGuard)
	}
}

// A client cannot mend it, but whoever looks at the answer can.
const loopDetail = "The request has met itself: it came through two guards on one record, or through one guard twice, and the first one let it run. " +
	"Guard it once, or give the inner guard another scope or another store."
