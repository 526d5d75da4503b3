package layers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/dsn"
)

var errNotThere = errors.New("it does not answer")

// late is a front that may not be there when the gateway starts: nobody relies on it, so nobody waits for it. Once it is open, its
// client finds it again by itself.
type late struct {
	opened atomic.Pointer[dsn.Opened]
	cancel context.CancelFunc
	trying sync.WaitGroup
}

// start tries, and goes on trying if that fails or takes long: its error tells, and comes within a second. A server that is cut
// off says nothing for as long as a connection may take.
func (l *late) start(open func(context.Context) (*dsn.Opened, error)) error {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	tried := make(chan error, 1)
	l.trying.Go(func() {
		t := time.NewTicker(again)
		defer t.Stop()
		for {
			o, err := open(ctx)
			if err == nil {
				l.opened.Store(o)
			}
			select {
			case tried <- err: // the first
			default:
			}
			if err == nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
	})
	limit := time.NewTimer(again)
	defer limit.Stop()
	select {
	case err := <-tried:
		return err
	case <-limit.C:
		return errNotThere
	}
}

func (l *late) stop() error {
	l.cancel()
	l.trying.Wait()
	if o := l.opened.Load(); o != nil {
		return o.Close()
	}
	return nil
}

// store is the front, or one that never answers.
func (l *late) store() stet.Store {
	if o := l.opened.Load(); o != nil {
		return o.Store
	}
	return nowhere{}
}

func (l *late) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	return l.store().Create(ctx, r)
}

func (l *late) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	return l.store().Get(ctx, id)
}

func (l *late) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	return l.store().Replace(ctx, prev, h, b)
}

func (l *late) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	return l.store().Delete(ctx, id, prev)
}

func (l *late) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	return l.store().Due(ctx, q)
}

// nowhere is a store that is not there.
type nowhere struct{}

func (nowhere) Create(context.Context, stet.Record) (stet.Record, error) {
	return stet.Record{}, errNotThere
}
func (nowhere) Get(context.Context, stet.ID) (stet.Record, error) { return stet.Record{}, errNotThere }
func (nowhere) Replace(context.Context, stet.Version, stet.Head, *stet.Body) (stet.Head, error) {
	return stet.Head{}, errNotThere
}
func (nowhere) Delete(context.Context, stet.ID, stet.Version) error { return errNotThere }
func (nowhere) Due(context.Context, stet.Query) ([]stet.Head, string, error) {
	return nil, "", errNotThere
}
