package stet

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet/internal/walk"
)

// ErrUnstored is returned by Begin while this process waits for its store to take too much of what
// it knows already: see [Config].MaxUnstored. It is an [ErrUnsettled].
var ErrUnstored = fmt.Errorf("%w: too much that happened here is not stored yet", ErrUnsettled)

// learned is what this process knows of an execution, and the store does not know yet: a result, a
// statement, or that the outcome is unknown. It is kept until the store has it, or has an answer
// that leaves no place for it.
type learned struct {
	claim  *Claim // of its holder; nil for what others have said
	note   *Note  // ... who, on what evidence
	head   Head   // of the execution, in the state in which it ended
	body   *Body
	told   bool      // its caller has the answer, although it is not stored
	doubts bool      // this holder itself has said that the outcome is unknown
	due    time.Time // local; the lease's end: a process that ends waits until then

	bytes int64     // in the queue's account
	place int       // in the queue; -1 while it is tried
	next  time.Time // local; when to try again
	pause time.Duration
	loud  atomic.Bool // a double effect was told
	taken *Head       // the record that has it as its outcome, once it has
}

// size is what it counts for against [Config].MaxUnstored.
func (l *learned) size() int64 {
	const head = 2 << 10
	n := int64(head)
	if l.body == nil {
		return n
	}
	n += int64(len(l.body.Request) + len(l.body.Progress))
	if r := l.body.Response; r != nil {
		n += int64(len(r.Body))
	}
	return n
}

// execution is the name of one execution in this process.
type execution struct {
	id    ID
	fence int64
}

func (l *learned) execution() execution { return execution{l.head.ID, l.head.Fence()} }

// unstored is the queue of what the store does not know yet, in the order of the next tries. It
// forgets nothing. A newer statement about an execution takes the place of an older one.
type unstored struct {
	limit int64

	mu      sync.Mutex
	of      map[execution]*learned
	queue   tryQueue
	bytes   int64
	refused bool // new executions were, since there was room
	working bool
	news    chan struct{} // has room for one
}

// tryQueue implements [heap.Interface].
type tryQueue []*learned

func (q tryQueue) Len() int           { return len(q) }
func (q tryQueue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q tryQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i]; q[i].place, q[j].place = i, j }
func (q *tryQueue) Push(l any)        { l.(*learned).place = len(*q); *q = append(*q, l.(*learned)) }
func (q *tryQueue) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	(*q)[last], *q, l.place = nil, (*q)[:last], -1
	return l
}

func (u *unstored) full() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bytes >= u.limit
}

// refuse tells that a new execution is refused, once until there is room again.
func (e *Engine) refuse() {
	u := e.unstored
	u.mu.Lock()
	told, n := u.refused, len(u.of)
	u.refused = u.bytes >= u.limit
	u.mu.Unlock()
	if !told {
		e.Observe(Event{Kind: Overfull, Count: n})
	}
}

// Unstored is how much this process knows that its store does not: results, late answers and doubts
// that the store has not taken yet, and their bytes in memory. See [Config].MaxUnstored.
func (e *Engine) Unstored() (entries int, bytes int64) {
	u := e.unstored
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.of), u.bytes
}

// keep adds l to what has to be stored, and sees to it that it is.
func (e *Engine) keep(l *learned) {
	u := e.unstored
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of, u.news = map[execution]*learned{}, make(chan struct{}, 1)
	}
	if old := u.of[l.execution()]; old != nil {
		if l.note != nil && old.head.State == Completed {
			return // the holder's own word, with its answer, or that of another who has found the same
		}
		if old.loud.Load() { // atomic, because old may be on its way to the store
			l.loud.Store(true)
		}
		u.remove(old)
	}
	l.pause, l.place = 100*firstWait, -1
	l.next = time.Now().Add(l.pause/2 + rand.N(l.pause))
	l.bytes = l.size()
	u.of[l.execution()] = l
	u.bytes += l.bytes
	heap.Push(&u.queue, l)
	if !u.working {
		u.working = true
		e.Go(0, e.storeAll)
	}
	select {
	case u.news <- struct{}{}:
	default:
	}
}

// remove takes out l, which may be on its way to the store and then is in no queue.
func (u *unstored) remove(l *learned) {
	if u.of[l.execution()] != l {
		return
	}
	delete(u.of, l.execution())
	u.bytes -= l.bytes
	u.refused = u.refused && u.bytes >= u.limit
	if l.place >= 0 {
		heap.Remove(&u.queue, l.place)
	}
}

// next takes what is to be tried now out of the queue, up to a number of entries, and returns how
// long to wait if there is nothing. ok is false if nothing is left: the worker ends.
func (u *unstored) next(most int) (ready []*learned, wait time.Duration, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	for len(u.queue) > 0 && len(ready) < most && !now.Before(u.queue[0].next) {
		ready = append(ready, heap.Pop(&u.queue).(*learned))
	}
	if len(u.queue) > 0 {
		wait = u.queue[0].next.Sub(now)
	}
	u.working = len(u.of) > 0
	return ready, wait, u.working
}

// hurryUp has everything tried at once: the process ends.
func (u *unstored) hurryUp() {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	for _, l := range u.queue {
		l.next = now
	}
	heap.Init(&u.queue)
}

// putBack has l tried again at next, unless something newer is known of its execution.
func (u *unstored) putBack(l *learned, next time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of[l.execution()] == l && l.place < 0 {
		l.next = next
		heap.Push(&u.queue, l)
	}
}

// storeAll works until the store has taken everything. While the store is away, it is asked by few
// calls at a time, and with pauses, however much there is. A process that ends waits for it until
// the leases are over, and for StoreTimeout at least: after an outage the first connections are
// broken ones.
func (e *Engine) storeAll() {
	u, hurried, hurry := e.unstored, e.chores.hurried(), false
	var patient time.Time // a process that ends is, until then
	pause := 100 * firstWait
	for {
		ready, wait, ok := u.next(concurrency)
		if !ok {
			return
		}
		news := u.news
		if len(ready) > 0 {
			if e.storeSome(ready, hurry) {
				pause = 100 * firstWait
				continue
			}
			if hurry && time.Now().After(patient) {
				e.giveUp()
			}
			wait, pause, news = pause/2+rand.N(pause), min(2*pause, longestPause), nil
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-news:
		case <-hurried:
			hurried, hurry, patient = nil, true, time.Now().Add(e.cfg.StoreTimeout)
			pause = 100 * firstWait
			u.hurryUp()
		}
		t.Stop()
	}
}

// storeSome tries once to have the store take each of some. It returns false if the store took none
// of them, and did not say why.
func (e *Engine) storeSome(some []*learned, hurry bool) bool {
	var answered atomic.Bool
	storing := walk.NewWorkers(concurrency)
	for _, l := range some {
		storing.Go(context.Background(), func() {
			if e.storeOne(l, hurry) {
				answered.Store(true)
			}
		})
	}
	storing.Wait()
	return answered.Load()
}

// longestPause is the longest pause between two tries while the store is away. A holder has to be
// heard within holderGrace of the store's return.
const longestPause = 2 * time.Second

// longestRest is the longest pause between two tries for a record that the store answers for, but
// that takes nothing now, such as one that another execution holds.
const longestRest = time.Minute

// storeOne tries once to have the store take l. It returns false if the store did not answer.
func (e *Engine) storeOne(l *learned, hurry bool) bool {
	u := e.unstored
	call := detach(context.Background(), e.cfg.StoreTimeout)
	defer call.release()
	done, err := e.place(call, l)
	switch {
	case done:
		u.mu.Lock()
		defer u.mu.Unlock()
		u.remove(l)
	case errors.Is(err, ErrRefused) && lessened(&l.head, &l.body), refused(err):
		u.putBack(l, time.Now())
	case hurry && !time.Now().Before(l.due) && (err == nil || final(err)):
		e.unplaced(l, err)
		u.mu.Lock()
		defer u.mu.Unlock()
		u.remove(l)
	case err == nil, final(err):
		l.pause = min(2*l.pause, longestRest)
		u.putBack(l, time.Now().Add(l.pause/2+rand.N(l.pause)))
	default:
		u.putBack(l, time.Now())
		return false
	}
	return true
}

// giveUp is for a process that ends while its store is away, or another execution holds a record:
// what no lease protects any more is told, and forgotten.
func (e *Engine) giveUp() {
	u, now := e.unstored, time.Now()
	u.mu.Lock()
	var lost []*learned
	for _, l := range u.of {
		if !now.Before(l.due) {
			lost = append(lost, l)
			u.remove(l)
		}
	}
	u.mu.Unlock()
	for _, l := range lost {
		e.unplaced(l, ErrUnsettled)
	}
}

// unplaced tells of something that no record takes any more.
func (e *Engine) unplaced(l *learned, err error) {
	e.Observe(Event{Kind: Unplaced, ID: l.head.ID, Route: l.head.Route, TraceID: l.head.TraceID, To: l.head.State,
		Attempt: l.head.Attempt, Status: l.head.Status, Err: err})
}
