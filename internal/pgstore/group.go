package pgstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Limits of the group commit.
const (
	maxBatch      = 256     // writes in one statement
	maxBatchBytes = 4 << 20 // of bodies in one statement, unless a single one is larger
	maxQueue      = 8192    // writes that wait for their turn; one more is refused
	writers       = 2       // statements of one kind on their way: while one is synced the other is filled
	batchTime     = 30 * time.Second
	batchLock     = "20" // milliseconds that a group waits for a row that others hold, before each goes alone
)

var (
	errQueueFull = errors.New("nothing was sent: too many writes are waiting")
	errAlone     = errors.New("not in a group") // the caller carries it out itself
)

// group makes statements of many writes out of concurrent writes of one kind. There is no timer: who finds a writer free goes
// at once, alone, on its own goroutine; who does not waits, and the next free writer takes all that wait. Nobody works for
// others: a writer with a group has a goroutine, and that ends when nobody waits.
type group struct {
	pool  Querier
	write *sqltext.PostgresWrite
	calls *calls

	mu      sync.Mutex
	waiting []*op
	busy    int
}

// do carries out o: in a group where there is one, else alone. g is nil for writes that are never grouped.
func (s *Store) do(g *group, o *op) error {
	if err := s.calls.enter(); err != nil {
		return err
	}
	defer s.calls.leave()
	if g == nil || o.head.Note != nil || s.held.has(o.head.ID) {
		return s.alone(o)
	}
	lead, err := g.enter(o)
	if err != nil {
		return err
	}
	if lead {
		if err = g.lead(o); answered(err) == codeLockWait {
			return s.outwait(o)
		}
		return err
	}
	select {
	case <-o.done:
	case <-o.ctx.Done():
		return g.abandon(o)
	}
	if errors.Is(o.err, errAlone) {
		return s.alone(o)
	}
	return o.err
}

// alone carries out o in a statement of its own. It waits for a row that others hold in two steps: for as long as a group
// would, and then among those who wait.
func (s *Store) alone(o *op) error {
	if !s.held.has(o.head.ID) {
		if err := o.alone(s.pool, batchLock, true); answered(err) != codeLockWait {
			return err
		}
	}
	return s.outwait(o)
}

// outwait waits for a row for as long as o's caller does. Of those who wait few do so in the server: each takes a connection of the
// pool, and all the others need it, too. They take turns, each for a moment, because some wait for rows that are free by now (B08).
func (s *Store) outwait(o *op) error {
	end, ends := patience(o.ctx)
	s.outwaiting.Add(1)
	defer s.outwaiting.Add(-1)
	for {
		s.held.add(o.head.ID)
		err := s.takeTurn(o, end, ends)
		if answered(err) != codeLockWait || ends && !time.Now().Before(end) {
			return err
		}
	}
}

// takeTurn waits for the row in the server, for a moment, and not beyond end if it ends.
func (s *Store) takeTurn(o *op, end time.Time, ends bool) error {
	select {
	case s.patient <- struct{}{}: // in the order they came
		defer func() { <-s.patient }()
	case <-o.ctx.Done():
		return errors.Join(errNothing, o.ctx.Err())
	}
	turn := max(turnTime*maxPatient/time.Duration(max(s.outwaiting.Load(), maxPatient)), leastTurn)
	if ends {
		turn = max(min(turn, time.Until(end)), time.Millisecond)
	}
	return o.alone(s.pool, strconv.FormatInt(turn.Milliseconds(), 10), true)
}

// enter makes o wait, or reports that a writer is free.
func (g *group) enter(o *op) (lead bool, err error) {
	if err := o.ctx.Err(); err != nil {
		return false, errors.Join(errNothing, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.busy < writers:
		g.busy++
		return true, nil
	case len(g.waiting) >= maxQueue:
		return false, errQueueFull
	}
	o.done = make(chan struct{})
	o.args = slices.Clone(o.args)
	for i, a := range o.args { // what belongs to the caller, who may be gone when it is read
		if b, ok := a.([]byte); ok && b != nil {
			o.args[i] = slices.Clone(b)
		}
	}
	g.waiting = append(g.waiting, o)
	return false, nil
}

// lead carries out o alone. It waits for a row that others hold no longer than a group would: the writer is not its own.
func (g *group) lead(o *op) error {
	defer g.leave()
	return o.alone(g.pool, batchLock, true)
}

// leave frees a writer, and gives it to those who wait.
func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.busy--
		return
	}
	batch := g.take()
	g.calls.busy.Add(1) // those who wait have entered: Close waits for them already
	go g.work(batch)
}

func (g *group) work(batch []*op) {
	defer g.calls.leave()
	for batch != nil {
		g.carry(batch)
		for _, o := range batch {
			close(o.done)
		}
		g.mu.Lock()
		if batch = g.take(); batch == nil {
			g.busy--
		}
		g.mu.Unlock()
	}
}

// take returns what waits, as much as goes into a statement. The group is locked.
func (g *group) take() []*op {
	n, size := 0, 0
	for n < min(len(g.waiting), maxBatch) {
		if size += g.waiting[n].size; n > 0 && size > maxBatchBytes {
			break
		}
		n++
	}
	if n == 0 {
		return nil
	}
	batch := slices.Clone(g.waiting[:n])
	clear(g.waiting[:n])
	if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
		g.waiting = nil
	}
	return batch
}

// abandon gives up waiting: nothing happened if nobody took o, and otherwise it may.
func (g *group) abandon(o *op) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, o); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return errors.Join(errNothing, o.ctx.Err())
	}
	return &lostError{o.ctx.Err()}
}

// carry answers every op of a batch. Callers that have gone are left out, of several with one name the first is in, and the
// names are in order, so that two groups never wait for each other.
func (g *group) carry(all []*op) {
	var end time.Time
	batch := make([]*op, 0, len(all))
	for _, o := range all {
		if o.err = o.ctx.Err(); o.err != nil {
			continue
		}
		o.err = errAlone
		batch = append(batch, o)
		if d, ok := o.ctx.Deadline(); !ok || end.IsZero() || d.After(end) {
			end = d // zero: one of them has none
			if !ok {
				end = time.Now().Add(batchTime)
			}
		}
	}
	slices.SortStableFunc(batch, func(a, b *op) int {
		return cmp.Or(cmp.Compare(a.head.Scope, b.head.Scope), cmp.Compare(a.head.Key, b.head.Key))
	})
	batch = slices.CompactFunc(batch, func(a, b *op) bool { return a.head.ID == b.head.ID })
	if len(batch) < 2 { // its own goroutine does as well
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	err := g.send(ctx, batch)
	for _, o := range batch {
		switch {
		case answered(err) != "" || errors.Is(err, errNothing) || errors.Is(err, stet.ErrCorrupt): // nothing happened, or unclear for whom
			o.err = errAlone
		case err != nil:
			o.err = err
		}
	}
}

func (g *group) send(ctx context.Context, batch []*op) error {
	args := append(arrays(g.write.Kinds, batch), batchLock)
	return each(ctx, g.pool, g.write.Many, args, func(rows Rows) error {
		return batch[0].scan(rows, func(ord int64) *op { return batch[ord-1] })
	})
}

const (
	heldFor    = time.Second // a row that was held counts as held
	maxHeld    = 1024        // rows remembered
	maxPatient = 4           // statements that wait for rows
	// One that waits does so for turnTime at most; for less where many do, but never less than leastTurn.
	turnTime  = 100 * time.Millisecond
	leastTurn = 10 * time.Millisecond
)

// held are names of rows that others were seen to hold.
type held struct {
	mu    sync.Mutex
	until map[stet.ID]time.Time
}

func (h *held) add(id stet.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if len(h.until) >= maxHeld {
		for id, end := range h.until {
			if now.After(end) {
				delete(h.until, id)
			}
		}
	}
	if h.until == nil {
		h.until = map[stet.ID]time.Time{}
	}
	if len(h.until) < maxHeld {
		h.until[id] = now.Add(heldFor)
	}
}

func (h *held) has(id stet.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	end, ok := h.until[id]
	if ok && time.Now().After(end) {
		delete(h.until, id)
		return false
	}
	return ok
}
