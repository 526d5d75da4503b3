package layers

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/internal/rest"
)

var errNotThere = errors.New("it does not answer")

// retryPause is the time between two attempts to open a cache, and the longest time that the start
// of the gateway takes for the first one.
const retryPause = time.Second

// lazy is a shared cache that may not be reachable when the gateway starts. Nothing depends on a
// cache, so the gateway does not wait for it. Once the cache is open, its client reconnects by
// itself.
type lazy struct {
	opened atomic.Pointer[dsn.Opened]
	giveUp func() // trying to open it
}

// start opens the cache, and goes on trying in the background if that fails or takes longer than
// retryPause: an unreachable server may leave a connection without an answer for much longer. The
// error says why the cache is not open yet.
func (l *lazy) start(open func(context.Context) (*dsn.Opened, error)) error {
	first := make(chan error, 1)
	l.giveUp = background(func(ctx context.Context) {
		for {
			o, err := open(ctx)
			if err == nil {
				l.opened.Store(o)
			}
			select {
			case first <- err:
			default:
			}
			if err == nil || !rest.For(ctx, retryPause) {
				return
			}
		}
	})
	select {
	case err := <-first:
		return err
	case <-time.After(retryPause):
		return errNotThere
	}
}

// stop closes the cache, and does not wait for one that is not open yet.
func (l *lazy) stop() error {
	l.giveUp()
	if o := l.opened.Load(); o != nil {
		return o.Close()
	}
	return nil
}

// nowhere is a store that never answers.
var nowhere = ability.Wrap(nil, func(context.Context, *ability.Call) error { return errNotThere }, false)

func (l *lazy) store() stet.Store {
	if o := l.opened.Load(); o != nil {
		return o.Store
	}
	return nowhere
}

func (l *lazy) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	return l.store().Create(ctx, r)
}

func (l *lazy) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	return l.store().Get(ctx, id)
}

func (l *lazy) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	return l.store().Replace(ctx, prev, h, b)
}

func (l *lazy) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	return l.store().Delete(ctx, id, prev)
}

func (l *lazy) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	return l.store().Due(ctx, q)
}
