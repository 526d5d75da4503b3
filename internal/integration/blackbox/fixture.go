// Package blackbox holds the cases a server must pass, written against HTTP alone. Every case runs
// against the net/http middleware in this process and against the gateway binary in its own, over
// the memory, file and SQLite stores.
//
// A case sees four things: the [Fixture], which is the API behind the layer and counts what it did;
// a Server, which is the layer under test; the answers that came back; and, where the case needs
// it, the faults of the store beneath.
package blackbox

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// CaseHeader names the case a request belongs to. Effects are counted, and handlers held, per case,
// so that cases can share a server and run at the same time. No profile puts it into the
// fingerprint.
const CaseHeader = "X-Fx-Case"

// OutcomeHeader is how an upstream states what became of a request.
const OutcomeHeader = "Stet-Outcome"

// Fixture is the API behind the layer: handlers under /fx/ that have an effect, and answer in every
// way HTTP allows. An effect is one more in the book of the case; nothing else survives a request.
// Safe for concurrent use.
type Fixture struct {
	// Outcome states what became of a request by the claim API of the process. Nil sets the
	// response header instead.
	Outcome func(r *http.Request, outcome string)

	mu     sync.Mutex
	books  map[string]*book
	change chan struct{} // closed, and made anew, when any book changes
	conns  int
	closed bool
}

// book is what happened in one case.
type book struct {
	entered int // handlers that had their effect, or wait for leave to have it
	effects int
	left    int // handlers that are gone, in whatever way
	passes  int // handlers in /fx/hang that may go on
	seen    []*http.Request
}

// NewFixture returns an API without any effects yet.
func NewFixture() *Fixture {
	return &Fixture{books: map[string]*book{}, change: make(chan struct{})}
}

// ServeHTTP answers /fx/NAME as the table of handlers says; every other name answers as /fx/json
// does, so that paths can be varied freely. The router looks at the escaped path and redirects
// nothing.
func (f *Fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(CaseHeader)
	f.edit(id, func(b *book) { b.seen = append(b.seen, r.Clone(context.Background())) })
	defer f.edit(id, func(b *book) { b.left++ })
	name, arg, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/fx/"), "/")
	handle, ok := handlers[name]
	if !ok {
		handle = (*call).json
	}
	c := &call{f: f, w: w, r: r, id: id, arg: arg, q: r.URL.Query()}
	handle(c)
}

// Effects returns how many effects a case had.
func (f *Fixture) Effects(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.book(id).effects
}

// Seen returns the requests whose handlers began, in order. Their bodies are gone.
func (f *Fixture) Seen(id string) []*http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*http.Request(nil), f.book(id).seen...)
}

// Release lets n of the handlers that hang go on, whether they hang already or will.
func (f *Fixture) Release(id string, n int) { f.edit(id, func(b *book) { b.passes += n }) }

// Entered waits until n handlers of the case had their effect, or hang before it.
func (f *Fixture) Entered(ctx context.Context, id string, n int) error {
	return f.await(ctx, id, func(b *book) bool { return b.entered >= n })
}

// Left waits until n handlers of the case are gone.
func (f *Fixture) Left(ctx context.Context, id string, n int) error {
	return f.await(ctx, id, func(b *book) bool { return b.left >= n })
}

// Close lets everything that hangs go.
func (f *Fixture) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.changed()
}

// Connected counts a connection; Connections says how many there were. A replay must not need one.
func (f *Fixture) Connected() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns++
}

// Connections returns how many connections were opened to the API, where it runs as a server of its
// own.
func (f *Fixture) Connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns
}

func (f *Fixture) book(id string) *book {
	b := f.books[id]
	if b == nil {
		b = &book{}
		f.books[id] = b
	}
	return b
}

func (f *Fixture) edit(id string, change func(*book)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.book(id))
	f.changed()
}

func (f *Fixture) changed() {
	close(f.change)
	f.change = make(chan struct{})
}

// await returns nil once the book is as asked, or the fixture is closed.
func (f *Fixture) await(ctx context.Context, id string, is func(*book) bool) error {
	for {
		f.mu.Lock()
		done, change := f.closed || is(f.book(id)), f.change
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pass waits for a Release and uses it up.
func (f *Fixture) pass(ctx context.Context, id string) error {
	return f.await(ctx, id, func(b *book) bool {
		if b.passes == 0 {
			return false
		}
		b.passes--
		return true
	})
}

// call is one request to the API.
type call struct {
	f   *Fixture
	w   http.ResponseWriter
	r   *http.Request
	id  string
	arg string // what follows the handler's name in the path
	q   url.Values
}

// effect is the thing that must happen once: it adds one to the book and returns which one it was.
func (c *call) effect() (n int) {
	c.f.edit(c.id, func(b *book) { b.entered++; b.effects++; n = b.effects })
	return n
}
