package sqlstore

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Limits of the groups for a server.
const (
	// fewWrites are not grouped: the server syncs its log once for all that commit at a time, so that a handful of callers is
	// served best by a statement each, at once.
	fewWrites = 8
	// maxGroups of one kind are under way at a time: while one is being synced, the next is sent.
	maxGroups = 2
	maxGroup  = 128 // writes in one group
	// groupTimeout is how long a group may take whose writers have no deadline.
	groupTimeout = 30 * time.Second
)

// errAlone: nothing of the write happened, and its caller is to carry it out alone.
var errAlone = errors.New("to be written alone")

// group makes groups of concurrent writes of one kind for a server. Unlike a [queue] it has several under way at a time, and
// a group is nobody's in particular: a server, unlike a disk, can stay away for longer than one of the callers wants to wait.
// There is no timer. A caller who finds few writes under way goes at once, on his own goroutine. Those who find many are
// the next group, carried out by a goroutine that lives as long as there is something to do.
type group struct {
	lanes *lanes
	carry func(ctx context.Context, c *lane, batch []*job) error
	bytes int // of text in one group

	mu      sync.Mutex
	busy    int       // writes under way
	groups  int       // goroutines that carry out groups
	waiting list.List // of *job
	closed  chan struct{}
	ended   bool // closed is
}

// jobPlace is where in a group a job is.
type jobPlace struct {
	element *list.Element
	taken   bool
	done    chan struct{}
	text    sqltext.MySQL // the values, written by the caller's goroutine, who may be gone when they are sent
}

// fits reports whether j may share a statement with others. A note has its entry in the history, and is rare; a large body
// would keep the others waiting.
func (*group) fits(j *job) bool {
	return j.head.Note == nil && (j.write == nil || !j.write.Large())
}

// do carries out j, alone if few others are under way, in a group otherwise.
func (g *group) do(j *job) error {
	if err := j.ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", errNothing, err)
	}
	if free, err := g.enter(); err != nil {
		return err
	} else if free {
		return g.single(j)
	}
	if j.write != nil {
		j.write.AddValues(&j.place.text)
	}
	if err := g.wait(j); err != nil {
		return err
	}
	select {
	case <-j.place.done:
		return j.err
	case <-j.ctx.Done():
		return g.leave(j)
	}
}

// enter takes the way if it is free.
func (g *group) enter() (free bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		return false, ErrClosed
	}
	if free = g.busy < fewWrites && g.waiting.Len() == 0; free {
		g.busy++
	}
	return free, nil
}

// wait puts j among those that wait, and sees to it that somebody serves them.
func (g *group) wait(j *job) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed != nil:
		return ErrClosed
	case g.waiting.Len() >= maxQueue:
		return errQueueFull
	}
	j.place.done = make(chan struct{})
	j.place.element = g.waiting.PushBack(j)
	if g.groups < maxGroups {
		g.groups++
		go g.serve()
	}
	return nil
}

// single carries out j on its caller's goroutine, by its caller's deadline.
func (g *group) single(j *job) error {
	defer g.done(1)
	err := g.lanes.with(j.ctx, func(c *lane) error { return apply(j.ctx, c, j) })
	switch answered(err) {
	case mysqlDuplicate, mysqlLockWait, mysqlDeadlock:
		return errAlone
	}
	return err
}

// done: n writes are no longer under way.
func (g *group) done(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy -= n
	g.end()
}

// end tells [group.close] when nothing is left to do. The group is locked.
func (g *group) end() {
	if g.closed != nil && !g.ended && g.busy == 0 && g.groups == 0 {
		g.ended = true
		close(g.closed)
	}
}

// serve carries out groups until nobody waits.
func (g *group) serve() {
	for batch := g.next(); batch != nil; batch = g.next() {
		g.write(batch)
		for _, j := range batch {
			close(j.place.done)
		}
		g.done(len(batch))
	}
}

// next takes the next group, or ends its server's work.
func (g *group) next() (batch []*job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	size := 0
	for e := g.waiting.Front(); e != nil && len(batch) < maxGroup; e = g.waiting.Front() {
		j := e.Value.(*job)
		if size += len(j.place.text.Text); size > g.bytes && batch != nil {
			break
		}
		g.waiting.Remove(e)
		j.place.taken = true
		batch = append(batch, j)
	}
	g.busy += len(batch)
	if batch == nil {
		g.groups--
		g.end()
	}
	return batch
}

// write gives each job its answer. Callers who have gone are left out.
func (g *group) write(batch []*job) {
	var last time.Time
	live := make([]*job, 0, len(batch))
	for _, j := range batch {
		if err := j.ctx.Err(); err != nil {
			j.err = fmt.Errorf("%w: %w", errNothing, err)
			continue
		}
		j.err = errUnknown
		live = append(live, j)
		deadline, ok := j.ctx.Deadline()
		if !ok {
			deadline = time.Now().Add(groupTimeout)
		}
		if deadline.After(last) {
			last = deadline
		}
	}
	if len(live) == 0 {
		return
	}
	slices.SortStableFunc(live, func(a, b *job) int { return compareIDs(a.head.ID, b.head.ID) })
	ctx, cancel := context.WithDeadline(context.Background(), last)
	defer cancel()
	err := g.lanes.with(ctx, func(c *lane) error { return g.carry(ctx, c, live) })
	if err == nil {
		return
	}
	for _, j := range live { // those that have had their answer keep it
		if j.err == errUnknown {
			j.err = err
		}
	}
}

func compareIDs(a, b stet.ID) int {
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
}

// leave gives up waiting.
func (g *group) leave(j *job) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if j.place.taken {
		return fmt.Errorf("no answer in time: %w", j.ctx.Err())
	}
	g.waiting.Remove(j.place.element)
	return fmt.Errorf("%w: %w", errNothing, j.ctx.Err())
}

// close refuses new writes, and waits for the others.
func (g *group) close() {
	g.mu.Lock()
	if g.closed == nil {
		g.closed = make(chan struct{})
		g.end()
	}
	g.mu.Unlock()
	<-g.closed
}
