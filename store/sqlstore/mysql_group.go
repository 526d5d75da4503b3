package sqlstore

import (
	"container/list"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// maxGroup is how many writes go into one statement at most.
const maxGroup = 128

// groupTimeout is how long a group may take whose writers have no deadline.
const groupTimeout = 30 * time.Second

// errAlone: nothing of the write happened, and its caller is to carry it out alone.
var errAlone = errors.New("to be written alone")

// group makes groups of concurrent writes of one kind for a server. Unlike a [queue] it has several under way at a time, and
// a group is nobody's in particular: a server, unlike a disk, can stay away for longer than one of the callers wants to wait.
// There is no timer: a caller who finds the way free goes at once, on his own goroutine. What arrives while all ways are
// taken is the next group, carried out by a goroutine that lives as long as there is something to do.
type group struct {
	lanes *lanes
	carry func(ctx context.Context, c *sql.Conn, batch []*job) error
	limit int // groups under way
	bytes int // of text in one group

	mu      sync.Mutex
	running int
	waiting list.List     // of *job
	closed  chan struct{} // not nil: closing; it is closed when nothing is under way
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

// do carries out j, alone if the way is free, in a group otherwise.
func (g *group) do(j *job) error {
	if err := j.ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", errNothing, err)
	}
	free, err := g.enter(j, false)
	if err == nil && !free && j.write != nil {
		j.write.AddValues(&j.place.text)
	}
	if err == nil && !free {
		free, err = g.enter(j, true)
	}
	switch {
	case err != nil:
		return err
	case free:
		return g.single(j)
	}
	select {
	case <-j.place.done:
		return j.err
	case <-j.ctx.Done():
		return g.leave(j)
	}
}

// enter takes a free way, or else makes j wait if it is prepared for that.
func (g *group) enter(j *job, prepared bool) (free bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed != nil:
		return false, ErrClosed
	case g.running < g.limit:
		g.running++
		return true, nil
	case g.waiting.Len() >= maxQueue:
		return false, errQueueFull
	case prepared:
		j.place.done = make(chan struct{})
		j.place.element = g.waiting.PushBack(j)
	}
	return false, nil
}

// single carries out j on its caller's goroutine, by its caller's deadline.
func (g *group) single(j *job) error {
	defer g.release()
	err := g.lanes.with(j.ctx, func(c *sql.Conn) error { return apply(j.ctx, c, j) })
	switch answered(err) {
	case mysqlDuplicate, mysqlLockWait, mysqlDeadlock:
		return errAlone
	}
	return err
}

// release gives a way to those that wait.
func (g *group) release() {
	if batch := g.next(); batch != nil {
		go g.serve(batch)
	}
}

// serve carries out groups until nobody waits.
func (g *group) serve(batch []*job) {
	for ; batch != nil; batch = g.next() {
		g.write(batch)
		for _, j := range batch {
			close(j.place.done)
		}
	}
}

// next takes the next group, or gives the way up.
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
	if batch == nil {
		if g.running--; g.running == 0 && g.closed != nil {
			close(g.closed)
		}
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
	err := g.lanes.with(ctx, func(c *sql.Conn) error { return g.carry(ctx, c, live) })
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
	if a.Scope != b.Scope {
		if a.Scope < b.Scope {
			return -1
		}
		return 1
	}
	switch {
	case a.Key < b.Key:
		return -1
	case a.Key > b.Key:
		return 1
	}
	return 0
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

// close refuses new writes, waits for the others, and closes the connections.
func (g *group) close() {
	g.mu.Lock()
	if g.closed == nil {
		g.closed = make(chan struct{})
		if g.running == 0 {
			close(g.closed)
		}
	}
	g.mu.Unlock()
	<-g.closed
	g.lanes.close()
}
