package linear

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/badnet"
)

var errLost = errors.New("the connection broke")

// faults is how likely, of a hundred, a message fares badly.
type faults struct{ request, reply, late, twice int }

var (
	noFaults   = faults{}
	fewFaults  = faults{8, 12, 6, 10}
	manyFaults = faults{30, 40, 20, 5}
)

// wire is a host's way to the store. Messages get lost, answers do, and copies of messages come
// to the store long after their senders gave up.
type wire struct {
	stet.Store
	h      *history
	faults atomic.Pointer[faults]
	mu     sync.Mutex
	random *rand.Rand
	flying sync.WaitGroup
}

func (w *wire) draw(below int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(below)
}

// send has do happen: once, not at all, later, or twice. The copies have no caller's context.
func send[T any](ctx context.Context, w *wire, do func(ctx context.Context) (T, error)) (none T, err error) {
	now, n := w.faults.Load(), w.draw(100)
	if a, ok := ctx.Value(asked{}).(*asking); ok && n < now.request+now.late+now.reply {
		a.lost.Store(true)
	}
	fly := func() {
		pause := time.Duration(w.draw(int(lateness)))
		w.flying.Go(func() {
			time.Sleep(pause) // no test waits for it, but its end
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			_, _ = do(late)
		})
	}
	switch {
	case n < now.request:
		return none, errLost
	case n < now.request+now.late:
		fly()
		return none, errLost
	}
	if w.draw(100) < now.twice {
		fly()
	}
	got, err := do(ctx)
	if a, ok := ctx.Value(asked{}).(*asking); ok && !answered(err) {
		a.lost.Store(true)
	}
	if n < now.request+now.late+now.reply {
		return none, errLost
	}
	return got, err
}

// answered reports whether a store has answered. One that is slow may not, in time, and nothing was
// lost on the wire.
func answered(err error) bool {
	return err == nil || errors.Is(err, stet.ErrExists) || errors.Is(err, stet.ErrStale) || errors.Is(err, stet.ErrNotFound)
}

// lateness is how late a message is at most: longer than its sender waits for it.
const lateness = 60 * time.Millisecond

func (w *wire) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	return send(ctx, w, func(ctx context.Context) (stet.Record, error) {
		began := w.h.now()
		got, err := w.Store.Create(ctx, r)
		if err == nil {
			w.h.created(ctx, r.Version, began)
		}
		return got, err
	})
}

func (w *wire) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	return send(ctx, w, func(ctx context.Context) (stet.Record, error) { return w.Store.Get(ctx, id) })
}

func (w *wire) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	b = badnet.Copied(b)
	return send(ctx, w, func(ctx context.Context) (stet.Head, error) { return w.Store.Replace(ctx, prev, h, badnet.Copied(b)) })
}

func (w *wire) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	_, err := send(ctx, w, func(ctx context.Context) (struct{}, error) { return struct{}{}, w.Store.Delete(ctx, id, prev) })
	return err
}

// careless compares no versions: a write lands on whatever is there.
type careless struct{ stet.Store }

func (c careless) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	got, err := c.Store.Create(ctx, r)
	if !errors.Is(err, stet.ErrExists) {
		return got, err
	}
	h, err := c.Store.Replace(ctx, got.Version, r.Head, &r.Body)
	return stet.Record{Head: h, Body: r.Body}, err
}

// overwriting checks when it creates, and not when it replaces.
type overwriting struct{ stet.Store }

func (o overwriting) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	got, err := o.Store.Replace(ctx, prev, h, b)
	if errors.Is(err, stet.ErrStale) {
		return o.Store.Replace(ctx, got.Version, h, b)
	}
	return got, err
}
