package stet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// SmallBody is how many bytes of memory a stored [Body] may take, in bytes, for the engine to read
// it together with its head: 64 KiB. A larger one is read by itself: see [Request].LeaveBody.
const SmallBody = 64 << 10

// WithMaxBody returns a context in which stores leave a body that takes more than bytes of memory
// where it is: see [Body].Left. With 0, heads alone are read, and bodies that have nothing in them.
func WithMaxBody(ctx context.Context, bytes int64) context.Context {
	return context.WithValue(ctx, maxBodyKey{}, &bytes)
}

// MaxBody is how many bytes of memory a body may take that a store reads in ctx: without
// [WithMaxBody] any number.
func MaxBody(ctx context.Context) int64 {
	if most, ok := ctx.Value(maxBodyKey{}).(*int64); ok {
		return *most
	}
	return math.MaxInt64
}

type maxBodyKey struct{}

// UpTo returns b as a store returns it where a body may take most bytes, see [MaxBody]: whole, or
// left.
func (b Body) UpTo(most int64) Body {
	if most == math.MaxInt64 {
		return b
	}
	if n := b.memory(); n > most {
		return Body{Left: n}
	}
	return b
}

// memory is about how many bytes b takes.
func (b *Body) memory() int64 {
	n := len(b.Request) + len(b.Progress)
	if r := b.Response; r != nil {
		n += len(r.Body)
		for _, fields := range [...][]Field{r.Header, r.Trailer} {
			for i := range fields {
				n += len(fields[i].Name) + len(fields[i].Value)
			}
		}
	}
	return max(int64(n), b.Left)
}

// Room is where a stored body has to fit before it is read.
type Room interface {
	// Reserve makes room for a body that takes that many bytes of memory, or returns an error,
	// after which the body is not read. If it is called again for the same request, only the larger
	// number counts. The caller that gave the Room gives the bytes back when it is done with the
	// body, also if that was then not read. Reserve is called by one goroutine at a time, and does
	// not wait.
	Reserve(bytes int64) error
}

// ErrUnread is returned when a record is there, and its body could not be read. Nothing was
// executed, and nothing may be: the key is in use.
var ErrUnread = errors.New("stet: the body of the record could not be read")

// ReadBody takes a decision whose Record has a body that was left, and reads that. It asks room
// first, unless that is nil, and returns what Reserve returns; whatever it returns, nothing was
// executed. If the record has changed meanwhile, it judges again, as [Engine.Await] does: the
// verdict may be another one, with another body, and is InProgress with a RetryAfter of 1 s if the
// key is free by now. The error is [ErrUnread] if the store did not answer.
func (e *Engine) ReadBody(ctx context.Context, d Decision, room Room) (Decision, error) {
	d, _, err := e.readBody(ctx, d, room)
	return d, err
}

// readBody is ReadBody. over is as in awaitUntil.
func (e *Engine) readBody(ctx context.Context, d Decision, room Room) (_ Decision, over bool, err error) {
	for range tries {
		if err = e.readOf(ctx, &d.Record, room); err != errAgain {
			break
		}
		have, err := e.lookAt(ctx, d.Record.ID)
		switch {
		case errors.Is(err, ErrNotFound):
			return comeAgain(d.Record), true, nil
		case err != nil:
			return Decision{}, false, fmt.Errorf("%w: %w", ErrUnread, err)
		}
		if d, over = judgeAgain(&d.Record.Head, have); over {
			return d, true, nil
		}
	}
	if err == errAgain {
		err = fmt.Errorf("%w: %w", ErrUnread, err)
	}
	if err != nil {
		return Decision{}, false, err
	}
	return d, false, nil
}

func (e *Engine) readOf(ctx context.Context, r *Record, room Room) error {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	return e.whole(call, r, room)
}

// whole reads the body of a record if the store has left it, and asks room first if there is one.
// The error is errAgain if the record has changed since.
func (e *Engine) whole(ctx context.Context, r *Record, room Room) error {
	for r.Left > 0 {
		size := r.Left
		if room != nil {
			if err := room.Reserve(size); err != nil {
				return err
			}
		}
		got, err := e.read(ctx, r.ID, size)
		switch {
		case errors.Is(err, ErrNotFound):
			return errAgain
		case err != nil:
			return fmt.Errorf("%w: %w", ErrUnread, err)
		case got.Version != r.Version:
			return errAgain
		case got.Left > 0 && got.Left <= size:
			return fmt.Errorf("%w: the store left one for which there is room", ErrUnread)
		}
		*r = got
	}
	return nil
}

// read reads a record with a large body, when it is that one's turn.
func (e *Engine) read(ctx context.Context, id ID, size int64) (Record, error) {
	share := min(size, maxReading)
	if err := e.reading.enter(ctx, share); err != nil {
		return Record{}, fmt.Errorf("%w: other bodies are being read: %w", ErrBusy, err)
	}
	defer e.reading.leave(share)
	return e.look(WithMaxBody(ctx, size), id)
}

// maxReading is how many bytes of large bodies an engine reads at a time, or one body that is
// larger. A store has up to four copies of a body while it reads it (the driver's, the row's, the
// packed and the unpacked one): what is on its way is bounded by this, and not by a Room, which
// would have no place for the largest bodies otherwise.
const maxReading = 16 << 20

// reading lets those in who read, in the order in which they came.
type reading struct {
	mu   sync.Mutex
	held int64
	line []*turn
}

type turn struct {
	bytes int64
	come  chan struct{} // closed when it has come
}

func (r *reading) enter(ctx context.Context, bytes int64) error {
	t := &turn{bytes, make(chan struct{})}
	r.mu.Lock()
	r.line = append(r.line, t)
	r.admit()
	r.mu.Unlock()
	select {
	case <-t.come:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.line, t); i >= 0 {
		r.line = slices.Delete(r.line, i, i+1)
	} else { // it came in the same instant
		r.held -= bytes
	}
	r.admit()
	return ctx.Err()
}

func (r *reading) leave(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= bytes
	r.admit()
}

// admit calls those whose turn has come. The caller has the lock.
func (r *reading) admit() {
	for len(r.line) > 0 && r.held+r.line[0].bytes <= maxReading {
		r.held += r.line[0].bytes
		close(r.line[0].come)
		r.line = slices.Delete(r.line, 0, 1)
	}
}
