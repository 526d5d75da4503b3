package filestore

import (
	"context"
	"sync"
)

// maxCalls bounds how many calls work on files at a time. A disk that hangs occupies one thread for
// each of them; other calls wait where their deadlines take effect.
const maxCalls = 128

// gate admits one writer of a key at a time, and at most maxCalls calls altogether. Between
// processes the locks of files do the same; within a process it is cheaper and fair to wait here.
type gate struct {
	slots chan struct{}
	mu    sync.Mutex
	turns map[string]*turn
}

// turn belongs to one writer of a key; n writers have it or wait for it.
type turn struct {
	free chan struct{}
	n    int
}

func newGate() *gate {
	return &gate{slots: make(chan struct{}, maxCalls), turns: make(map[string]*turn)}
}

// enter waits for a place, and for the turn at name unless name is empty. A call that waits for a
// turn takes no place.
func (g *gate) enter(ctx context.Context, name string) (leave func(), err error) {
	done := func() {}
	if name != "" {
		if done, err = g.take(ctx, name); err != nil {
			return nil, err
		}
	}
	select {
	case g.slots <- struct{}{}:
		return func() { <-g.slots; done() }, nil
	case <-ctx.Done():
		done()
		return nil, ctx.Err()
	}
}

func (g *gate) take(ctx context.Context, name string) (done func(), err error) {
	g.mu.Lock()
	t, ok := g.turns[name]
	if !ok {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		g.turns[name] = t
	}
	t.n++
	g.mu.Unlock()
	select {
	case <-t.free:
		return func() { t.free <- struct{}{}; g.drop(name, t) }, nil
	case <-ctx.Done():
		g.drop(name, t)
		return nil, ctx.Err()
	}
}

func (g *gate) drop(name string, t *turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.n--; t.n == 0 {
		delete(g.turns, name)
	}
}
