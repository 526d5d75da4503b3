package simulation

import (
	"context"
	"errors"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// errLost is all that a process hears of a message that went wrong.
var errLost = errors.New("the connection broke")

// loss is what may happen to a message.
type loss uint8

const (
	none    loss = iota
	request      // it never comes to the store
	reply        // it happens, and nobody hears of it
	late         // it happens later, when nobody reckons with it any more
	again        // it happens, and a copy of it happens once more later, at any time: also when its record is gone
	broken       // it never comes to the store, nor does any other of this process until that is mended
)

// GoString is how a history shows it.
func (l loss) GoString() string {
	return [...]string{"none", "request", "reply", "late", "again", "broken"}[l]
}

// line is a host's connection to the store. It loses what the history says, and has every write looked at. The store's abilities
// go past it, but that to reap.
type line struct {
	*memstore.Store
	w    *world
	host *host
}

var (
	_ stet.Store  = (*line)(nil)
	_ stet.Reaper = (*line)(nil)
)

// next is what happens to the next message about key: each key has its own, so that what goes on side by side is drawn all the same.
func (l *line) next(key stet.Key) loss {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	n := l.w.calls[key]
	l.w.calls[key]++
	switch {
	case l.host.cut:
		return request
	case n >= len(l.w.losses):
		return none
	}
	l.host.cut = l.w.losses[n] == broken
	return l.w.losses[n]
}

// send has do happen or not.
func send[T any](ctx context.Context, l *line, key stet.Key, do func() (T, error)) (nothing T, err error) {
	if err := ctx.Err(); err != nil {
		return nothing, err
	}
	switch l.next(key) {
	case request, broken:
		return nothing, errLost
	case reply:
		_, _ = do()
		return nothing, errLost
	case late:
		l.w.mu.Lock()
		defer l.w.mu.Unlock()
		l.w.late = append(l.w.late, func() { _, _ = do() })
		return nothing, errLost
	case again:
		l.w.mu.Lock()
		l.w.late = append(l.w.late, func() { _, _ = do() })
		l.w.mu.Unlock()
	case none:
	}
	return do()
}

// write is send for what changes the record of id.
func write[T any](ctx context.Context, l *line, id stet.ID, do func() (T, error)) (T, error) {
	return send(ctx, l, id.Key, func() (T, error) {
		l.w.mu.Lock()
		defer l.w.mu.Unlock()
		was := l.w.stored(id)
		got, err := do()
		l.w.witness(l.host, was, l.w.stored(id))
		return got, err
	})
}

// The store's calls have contexts of their own: a late one happens when its caller's has ended.

func (l *line) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	return write(ctx, l, r.ID, func() (stet.Record, error) {
		return l.read(l.Store.Create(context.Background(), r))
	})
}

func (l *line) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	return send(ctx, l, id.Key, func() (stet.Record, error) { return l.read(l.Store.Get(context.Background(), id)) })
}

func (l *line) read(r stet.Record, err error) (stet.Record, error) {
	if l.w.setting.read != nil {
		l.w.setting.read(&r.Head)
	}
	return r, err
}

func (l *line) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	b = copied(b)
	if l.w.setting.written != nil {
		l.w.setting.written(&h)
	}
	return write(ctx, l, h.ID, func() (stet.Head, error) {
		if was := l.w.stored(h.ID); was != nil && l.w.setting.overwrite {
			prev = was.Version
		}
		return l.Store.Replace(context.Background(), prev, h, b)
	})
}

// copied is the body as it is now: the holder may settle once more before the write happens.
func copied(b *stet.Body) *stet.Body {
	if b == nil {
		return nil
	}
	c := *b
	if b.Response != nil {
		r := *b.Response
		c.Response = &r
	}
	return &c
}

func (l *line) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	_, err := write(ctx, l, id, func() (struct{}, error) { return struct{}{}, l.Store.Delete(context.Background(), id, prev) })
	return err
}

func (l *line) Due(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	heads, err = send(ctx, l, "", func() (page []stet.Head, err error) {
		page, next, err = l.Store.Due(context.Background(), q)
		return page, err
	})
	if err != nil {
		return nil, "", err
	}
	return heads, next, nil
}

// Reap has what it does to any record looked at.
func (l *line) Reap(ctx context.Context, limit int) (int, error) {
	return send(ctx, l, "", func() (int, error) {
		l.w.mu.Lock()
		defer l.w.mu.Unlock()
		var was [len(keys)]*stet.Record
		for i, key := range keys {
			was[i] = l.w.stored(named(key))
		}
		n, err := l.Store.Reap(context.Background(), limit)
		for i, key := range keys {
			if r := was[i]; r != nil && r.Over() && l.w.setting.evict {
				_ = l.Store.Delete(context.Background(), r.ID, r.Version)
			}
			l.w.witness(l.host, was[i], l.w.stored(named(key)))
		}
		return n, err
	})
}
