package figures

import "time"

// clock counts a board's own time, which goes on whatever becomes of other clocks, and knows how
// far the store's is from it. Steps are counted in the board's time, so that what was counted keeps
// its age, and are numbered in the store's when they are published.
type clock struct {
	own, local time.Time     // the same instant, in the board's time and on the local monotonic clock
	off        time.Duration // the store's time less the board's
	tuned      bool
}

// at is a local instant in the board's time.
func (c *clock) at(local time.Time) time.Time { return c.own.Add(local.Sub(c.local)) }

// store is a local instant in the store's time.
func (c *clock) store(local time.Time) time.Time { return c.at(local).Add(c.off) }

// label is by how many steps the store's numbers differ from the board's.
func (c *clock) label(step time.Duration) int64 { return int64(c.off.Round(step) / step) }

// drift is the correction that counts as one: clocks that run alike differ by less.
const drift = time.Second

// tune corrects the board's time by an instant that the store has stamped for a call that was made
// at the local instant asked and has just ended, if the two differ by little or are compared for
// the first time, and otherwise notes how far they are apart. It returns by how much it has set the
// board's time. The store may have read its clock at any moment of the call, so that only an
// instant outside of it tells of a difference: what is corrected by less would come before its own
// cause.
func (c *clock) tune(stamp, asked time.Time) time.Duration {
	now, by := time.Now(), time.Duration(0)
	if first, last := c.at(asked), c.at(now); stamp.Before(first) {
		by = stamp.Sub(first)
	} else if stamp.After(last) {
		by = stamp.Sub(last)
	}
	if c.tuned && by.Abs() >= drift {
		c.off = by
		return 0
	}
	c.own, c.local, c.off, c.tuned = c.at(now).Add(by), now, 0, true
	return by
}

// tune is told an instant of the store, stamped for a call that was made at asked.
func (b *Board) tune(stamp, asked time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.collect(b.now())
	by := b.clock.tune(stamp, asked)
	for _, r := range b.rings() {
		r.last += int64(by.Round(r.step) / r.step) // what was counted keeps its age
	}
}

// rings are all that count in steps of time.
func (b *Board) rings() []*ring {
	all := []*ring{&b.hour, &b.day}
	for _, t := range []*routes{b.routes, b.shadows} {
		for _, row := range *t.rows.Load() {
			all = append(all, &row.hours)
		}
	}
	return all
}
