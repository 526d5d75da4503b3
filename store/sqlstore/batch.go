package sqlstore

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stet-dev/stet"
)

// Limits of the group commit.
const (
	maxBatch      = 256     // writes in one transaction
	maxBatchBytes = 4 << 20 // of bodies in one transaction, unless a single one is larger
	maxQueue      = 8192    // writes that wait for their turn; one more is refused
)

var (
	errQueueFull = errors.New("too many writes are waiting")
	errNothing   = errors.New("nothing was written")
	errUnknown   = errors.New("the write was begun and never answered") // a panic in a driver: it may have happened
)

// op is one write: prepared by the goroutine that asks for it, carried out by whichever leads.
type op struct {
	verb
	ctx    context.Context
	id     stet.ID
	head   stet.Head // create, replace
	prev   stet.Version
	args   []any // of the statement, but for the instants
	size   int
	looked bool // create: the name was free a moment ago
	limit  int  // reap

	err  error
	got  stet.Head   // as stored; of the incumbent with [stet.ErrStale]
	have stet.Record // the incumbent with [stet.ErrExists]
	gone int         // reap: how many were removed

	turn  chan bool // true: lead; false: it is done
	state opState   // under the queue's lock
	place *list.Element
}

type verb uint8

const (
	create verb = iota + 1
	replaceHead
	replaceAll
	remove
	reap
	appendTo
)

type opState uint8

const (
	queued opState = iota
	leading
	taken // what becomes of it is out of its caller's hands
)

// queue makes groups of concurrent writes, without a goroutine or a timer of its own. The first caller leads: it begins a
// transaction, takes all that wait by then into it, and commits. What arrives meanwhile waits, and the first of those leads
// next. A leader serves one group, the one it is in itself, so that nobody works for others for longer than its own write
// takes. A lone caller waits for nobody.
type queue struct {
	committer
	mu      sync.Mutex
	waiting list.List // of *op
	led     bool
	closed  chan struct{} // not nil: closing; it is closed when the last leader has left
}

// committer carries out groups. One leader at a time uses it.
type committer interface {
	// begin waits until the database lets o's caller write, no longer than o.ctx allows. An error is the answer to o alone.
	begin(o *op) error
	// commit carries the batch out, and gives each op its err. It returns when that is durable. The ops of callers that have
	// gone are left out.
	commit(batch []*op)
	close() error
}

// do carries out o in a group. An error of o.ctx means that its end came first: the write did not happen, if the error says
// so ([errNothing]), or may happen yet.
func (q *queue) do(o *op) error {
	if q.lone(o) {
		return o.err
	}
	o.own()
	lead, err := q.enter(o)
	if err != nil {
		return err
	}
	if !lead {
		select {
		case lead = <-o.turn:
		case <-o.ctx.Done():
			return q.leave(o)
		}
	}
	if lead {
		q.lead(o)
	}
	return o.err
}

// lone leads with o if nobody does, and reports whether it did.
func (q *queue) lone(o *op) bool {
	q.mu.Lock()
	free := !q.led && q.closed == nil
	q.led = q.led || free
	q.mu.Unlock()
	if free {
		q.lead(o)
	}
	return free
}

// enter makes o wait, or reports that it leads after all.
func (q *queue) enter(o *op) (lead bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed != nil:
		return false, ErrClosed
	case !q.led:
		q.led = true
		return true, nil
	case q.waiting.Len() >= maxQueue:
		return false, errQueueFull
	}
	o.err = errUnknown
	o.turn = make(chan bool, 1)
	o.place = q.waiting.PushBack(o)
	return false, nil
}

// own copies what belongs to the caller, who may be gone, and have changed it, when a leader reads it.
func (o *op) own() {
	for i, a := range o.args {
		if b, ok := a.([]byte); ok {
			o.args[i] = bytes.Clone(b)
		}
	}
}

// leave gives up waiting for a turn.
func (q *queue) leave(o *op) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch o.state {
	case queued:
		q.waiting.Remove(o.place)
	case leading: // chosen in the same instant
		q.next()
	case taken:
		return fmt.Errorf("no answer in time: %w", o.ctx.Err())
	}
	return fmt.Errorf("%w: %w", errNothing, o.ctx.Err())
}

// lead serves the group that o is in.
func (q *queue) lead(o *op) {
	batch := []*op{o}
	defer func() { // also when a driver panics: the next one leads before the answers are given, the disk shall not wait
		q.mu.Lock()
		q.next()
		q.mu.Unlock()
		for _, o := range batch[1:] {
			o.turn <- false
		}
	}()
	if o.err = q.begin(o); o.err != nil {
		return
	}
	o.err = errUnknown
	batch = q.take(batch)
	q.commit(batch)
}

// take adds to the batch what waits.
func (q *queue) take(batch []*op) []*op {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := batch[0].size
	for e := q.waiting.Front(); e != nil && len(batch) < maxBatch; e = q.waiting.Front() {
		o := e.Value.(*op)
		if size += o.size; size > maxBatchBytes {
			break
		}
		q.waiting.Remove(e)
		o.state = taken
		batch = append(batch, o)
	}
	return batch
}

// next hands the lead on, or lays it down. The queue is locked.
func (q *queue) next() {
	if e := q.waiting.Front(); e != nil {
		o := q.waiting.Remove(e).(*op)
		o.state = leading
		o.turn <- true
		return
	}
	q.led = false
	if q.closed != nil {
		close(q.closed)
	}
}

// close refuses new writes, waits for the others, and closes what carried them out.
func (q *queue) close() error {
	q.mu.Lock()
	if q.closed != nil {
		q.mu.Unlock()
		<-q.closed
		return nil
	}
	q.closed = make(chan struct{})
	if !q.led {
		close(q.closed)
	}
	q.mu.Unlock()
	<-q.closed
	return q.committer.close()
}
