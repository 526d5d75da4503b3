package stethttp

import "time"

// lasting is implemented by a handler whose work can go on without it, such as a proxy that waits
// for an upstream. When its context ends, it takes a last look for the answer, and then returns or
// calls GoOn of its ResponseWriter. Until then the layer does not answer in its place.
type lasting interface{ Lasts() }

// lasts reports whether the handler is a lasting one. The end of its context has not reached what
// it waits for, so that a failure of that is as good as in time.
func (x *run) lasts() bool { _, ok := x.next.(lasting); return ok }

// longestLook is how long a lasting handler is waited for when its time is over.
const longestLook = 5 * time.Second

// awaitLook waits until a lasting handler has had its last look. The caller holds mu, which is
// released meanwhile.
func (c *capture) awaitLook() {
	if !c.x.lasts() || c.back.Load() || c.goesOn {
		return
	}
	looked := make(chan struct{})
	c.looked = looked
	c.mu.Unlock()
	defer c.mu.Lock()
	t := time.NewTimer(longestLook)
	defer t.Stop()
	select {
	case <-looked:
	case <-t.C:
	}
}

// endLook says that the handler has had its last look. The caller holds mu.
func (c *capture) endLook() {
	if c.looked != nil {
		close(c.looked)
		c.looked = nil
	}
}

// GoOn is for a handler whose context has ended before the answer was there. It tells the client
// that the time is over, and reports whether the handler may return while its work goes on in
// another goroutine. That one writes to the same ResponseWriter, and calls Returned in the end: the
// record is attended until then, and what was written by then is the run's answer. It reports false
// while the client receives what the handler writes. A proxy finds this method by a type assertion.
func (c *capture) GoOn() bool {
	if p := c.phase(); p == publishing || p == streaming { // a client that reads slowly may keep the lock
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLook()
	if cause := c.x.claim.Ended(); cause != nil {
		c.goesOn = true
		c.x.timeOut(cause)
		c.goesOn = c.phase().told()
	}
	return c.goesOn
}

// Returned ends the work of a handler that GoOn has let return.
func (c *capture) Returned(crashed bool) {
	defer c.x.giveBack()
	if crashed {
		c.x.crashed()
		return
	}
	c.x.finish()
}
