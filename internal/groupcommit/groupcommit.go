// Package groupcommit makes groups of concurrent writes, so that they share one wait for a disk or
// a server. The stores for SQLite, MySQL and Postgres and the outbox use it. A driver supplies the
// statements in a [Config]; a [Queue] decides which write goes when, and with which others:
//
//   - Alone: if nothing waits and there is room, a caller carries out its write at once, on its
//     own goroutine and under its own context. There is no timer, and no caller waits for company.
//   - Groups: otherwise the write waits, in order of arrival. As soon as there is room, a
//     goroutine carries out all that waits, up to MaxGroup writes and MaxBytes, as one group after
//     the other. It ends when nothing waits. No caller carries out a later group than its own.
//     Without Lone, a group begins beside others only when it is as large as they are together;
//     those that have been on their way for 100 ms do not count.
//   - Cancellation: a caller whose context ends returns at once. A write that was still waiting is
//     never carried out, and its error wraps [ErrNothing]. A write that was on its way may happen
//     yet, and its error wraps errNoAnswer; the rest of the group is not affected. A group has
//     until the latest deadline of its writes.
//   - Lost answers: if the driver fails and cannot tell whether the group happened, its error is
//     the answer to each write of the group. Nothing is tried again here: a repetition could
//     contradict what another process did meanwhile.
//   - Refusals: if the database refuses a group, so that nothing of it happened, each of its
//     writes is carried out separately. A write that the database cannot take fails alone.
//   - Held rows: a write to a row that another transaction holds stays out of groups (Fits,
//     [Held]), and is carried out by Patient, which may wait for the row. It delays no other
//     write.
//   - Panics: a panic of the driver reaches one caller of the group. The others receive
//     [ErrUnknown].
//   - Close: new writes are refused; those that wait or are on their way are finished first.
package groupcommit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Queue groups concurrent writes. It is safe for concurrent use.
type Queue[W item] struct {
	Config[W]

	mu      sync.Mutex
	waiting []W
	busy    int           // writes on their way, but for those of slow groups
	places  int           // lone callers, and goroutines with groups
	groups  int           // goroutines with groups
	closed  chan struct{} // not nil: closing; closed when nothing is on its way
}

// New returns a queue for a driver.
func New[W item](c Config[W]) *Queue[W] { return &Queue[W]{Config: c} }

// Do carries out w, in one of the ways that the package comment describes, and returns its answer.
func (q *Queue[W]) Do(w W) error {
	if q.Fits == nil || q.Fits(w) {
		if err := q.join(w); err != ErrSeparate {
			return err
		}
	}
	return q.Patient(w)
}

func (q *Queue[W]) join(w W) error {
	c := w.call()
	if err := c.Ctx.Err(); err != nil {
		return Nothing(err)
	}
	switch lone, err := q.enter(w); {
	case err != nil:
		return err
	case lone:
		return q.lead(w)
	}
	if looks := q.Look != nil && (q.Looks == nil || q.Looks(w)); looks && q.late(w) {
		if err := q.Look(w); err != nil && q.withdraw(w) {
			return err
		}
	}
	select {
	case <-c.done:
		if c.panicked != nil {
			panic(c.panicked)
		}
		return c.Err
	case <-c.Ctx.Done():
		return q.leave(w)
	}
}

// place takes a place for a lone caller, if there is one. The queue is locked, as it is for all
// that say nothing else below.
func (q *Queue[W]) place() bool {
	room := q.busy < q.Lone
	if q.Lone == 0 {
		room = q.places < q.Groups && q.enough(1)
	}
	if !room || len(q.waiting) > 0 || q.closed != nil {
		return false
	}
	q.busy++
	q.places++
	return true
}

// enough reports whether so many writes are worth a group beside those that are on their way: it
// has to be as large as they are. With smaller ones most of the database's time would go into
// groups of few writes.
func (q *Queue[W]) enough(writes int) bool { return writes >= min(q.busy, q.MaxGroup) }

// enter lets w wait, unless its caller may go alone. It locks the queue.
func (q *Queue[W]) enter(w W) (lone bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed != nil:
		return false, q.Closed
	case q.place():
		return true, nil
	case len(q.waiting) >= maxWaiting:
		return false, errQueueFull
	}
	w.call().done = make(chan struct{})
	q.waiting = append(q.waiting, w)
	q.start()
	return false, nil
}

// late reports whether w still waits after LookAfter. It locks the queue.
func (q *Queue[W]) late(w W) bool {
	t := time.NewTimer(q.LookAfter)
	defer t.Stop()
	select {
	case <-w.call().done:
		return false
	case <-w.call().Ctx.Done():
		return false
	case <-t.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Contains(q.waiting, w)
}

// withdraw reports whether w still waited, and does so no more. It locks the queue.
func (q *Queue[W]) withdraw(w W) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.remove(w)
}

// start begins to carry out what waits, if there is room.
func (q *Queue[W]) start() {
	room := q.groups < q.Groups
	if q.Lone == 0 {
		room = q.places < q.Groups && q.enough(len(q.waiting))
	}
	if room && len(q.waiting) > 0 {
		q.groups++
		q.places++
		go q.serve()
	}
}

// leave gives up waiting for w. It locks the queue.
func (q *Queue[W]) leave(w W) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := w.call()
	if q.remove(w) {
		return Nothing(c.Ctx.Err())
	}
	select {
	case <-c.done: // in the same instant
		return c.Err
	default:
		return fmt.Errorf("%w: %w", errNoAnswer, c.Ctx.Err())
	}
}

func (q *Queue[W]) remove(w W) bool {
	i := slices.Index(q.waiting, w)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// lead carries out w on its caller's goroutine. It locks the queue.
func (q *Queue[W]) lead(w W) error {
	if q.Alone == nil {
		q.carry(w, true)
		return w.call().Err
	}
	writes := 1
	defer q.end(&writes, true)
	err := q.Alone(w)
	if q.settles(err) == Contended {
		return ErrSeparate
	}
	return err
}

func (q *Queue[W]) settles(err error) Outcome {
	if err == nil || q.Settles == nil {
		return Final
	}
	return q.Settles(err)
}

// serve carries out groups until nothing waits. It locks the queue.
func (q *Queue[W]) serve() {
	for first, ok := q.next(); ok; first, ok = q.next() {
		q.carry(first, false)
	}
}

// next returns the first write that waits. If there is none it gives up the place of a group. It
// locks the queue.
func (q *Queue[W]) next() (first W, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 && (q.Lone > 0 || q.enough(len(q.waiting))) {
		return q.waiting[0], true
	}
	q.groups--
	q.places--
	q.idle()
	return first, false
}

// carry carries out the next group and gives its writes their answers. The first write is a lone
// caller's, on its own goroutine, or one that waits and may leave meanwhile. It locks the queue.
func (q *Queue[W]) carry(first W, lone bool) {
	var group []W
	writes := 0 // of the group that count in busy
	begun := q.Begin == nil
	defer func() {
		if !begun {
			group = q.only(first, lone)
			writes = len(group)
		}
		if !lone && len(group) > 0 {
			group[0].call().panicked = recover()
		}
		q.end(&writes, lone) // others may begin before the answers are given
		for _, w := range group {
			if done := w.call().done; done != nil {
				close(done)
			}
		}
	}()
	if !begun {
		err := q.Begin(first)
		first.call().Err = err
		if begun = err == nil; !begun {
			return
		}
	}
	group = q.gather(first, lone)
	if writes = len(group); writes > 1 && q.Lone == 0 && q.Groups > 1 {
		t := time.AfterFunc(slow, func() { q.overlook(&writes) })
		defer t.Stop()
	}
	if len(group) > 0 || q.Begin != nil {
		q.send(group)
	}
}

// only is the group that ends before it has begun. It locks the queue.
func (q *Queue[W]) only(first W, lone bool) []W {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case lone:
		return []W{first}
	case q.remove(first):
		q.busy++
		return []W{first}
	}
	return nil
}

// gather returns a group of what waits. It locks the queue.
func (q *Queue[W]) gather(first W, lone bool) []W {
	q.mu.Lock()
	defer q.mu.Unlock()
	group := make([]W, 0, 1+min(len(q.waiting), q.MaxGroup))
	size, n := 0, 0
	if lone {
		group, size = append(group, first), first.call().Size
		q.busy--
	}
	for ; n < len(q.waiting) && len(group) < q.MaxGroup; n++ {
		w := q.waiting[n]
		c := w.call()
		if err := c.Ctx.Err(); err != nil {
			c.Err = Nothing(err)
			close(c.done)
			continue
		}
		if size += c.Size; size > q.MaxBytes && len(group) > 0 {
			break
		}
		group = append(group, w)
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
	q.busy += len(group)
	return group
}

// send calls the driver for a group, and gives an answer to writes that the driver leaves without
// one.
func (q *Queue[W]) send(group []W) {
	if q.Compare != nil {
		slices.SortStableFunc(group, q.Compare)
	}
	for _, w := range group {
		w.call().Err = ErrUnknown
	}
	ctx, cancel := q.context(group)
	defer cancel()
	err := q.Many(ctx, group)
	if q.Patient != nil && (err == nil || q.settles(err) != Final) {
		err = ErrSeparate
	}
	for _, w := range group {
		if c := w.call(); c.Err == ErrUnknown {
			c.Err = cmp.Or(err, ErrUnknown)
		}
	}
}

// context ends at the latest deadline of a group. It carries the values of none of the callers.
func (q *Queue[W]) context(group []W) (context.Context, context.CancelFunc) {
	if q.Timeout == 0 {
		return context.Background(), func() {}
	}
	var last time.Time
	for _, w := range group {
		end, ok := w.call().Ctx.Deadline()
		if !ok {
			end = time.Now().Add(q.Timeout)
		}
		if end.After(last) {
			last = end
		}
	}
	return context.WithDeadline(context.Background(), last)
}

// slow is how long a group is waited for by others that are smaller: they are to fill a database's
// time well, not to share the fate of a group that gets no answer.
const slow = 100 * time.Millisecond

// overlook counts the writes of a slow group no longer. It locks the queue.
func (q *Queue[W]) overlook(writes *int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy -= *writes
	*writes = 0
	q.start()
}

// end counts writes that are no longer on their way, and gives up the place of a lone caller. It
// locks the queue.
func (q *Queue[W]) end(writes *int, lone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy -= *writes
	*writes = 0 // also for a slow group's timer
	if lone {
		q.places--
		q.start()
		q.idle()
	}
}

// idle tells Close that nothing is on its way.
func (q *Queue[W]) idle() {
	if q.closed != nil && q.places == 0 {
		close(q.closed)
	}
}

// Close refuses new writes, and returns when all others have been carried out. It may be called
// more than once.
func (q *Queue[W]) Close() {
	q.mu.Lock()
	if q.closed == nil {
		q.closed = make(chan struct{})
		q.idle()
	}
	q.mu.Unlock()
	<-q.closed
}

// FirstOfEach splits writes that are in order into the first of each name and the others. It
// changes nothing of what it is given.
func FirstOfEach[W any](sorted []W, compare func(a, b W) int) (first, others []W) {
	for i, w := range sorted {
		switch {
		case i > 0 && compare(sorted[i-1], w) == 0:
			if others == nil {
				first = slices.Clone(first)
			}
			others = append(others, w)
		case others == nil:
			first = sorted[: i+1 : i+1]
		default:
			first = append(first, w)
		}
	}
	return first, others
}
