// Package storeid keeps writes off a store that is not the one that it was: see [stet.Identified].
// Each store says how its identity is read, raised and made; the rest is here.
package storeid

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stet-dev/stet"
)

const (
	// Every is how long a look at the store lasts, and the time between two raises of its mark.
	Every = time.Second
	// lookTime bounds a look of the gate's own.
	lookTime = 5 * time.Second
	// TrailSize is the most that is kept of a trail.
	TrailSize = 16 * stepSize
	stepSize  = 8
	// maxReplaces is how many of the IDs that a store replaces are kept.
	maxReplaces = 16
)

// Gate is passed by each write. The funcs are set before Open, and nothing is changed after it.
type Gate struct {
	// Look reads the identity. A store that has none returns one without an ID.
	Look func(ctx context.Context) (stet.Identity, error)
	// Make gives the store the identity next in place of was, which has no ID where there is none.
	// It changes nothing, and returns no error, where the store has another one by then.
	Make func(ctx context.Context, was, next stet.Identity) error
	// Raise adds one to the mark of the store, and step to the beginning of its trail, which it
	// then shortens to TrailSize, if it is the known one: it has its ID, and its mark at least. It
	// returns what the store has then. It is nil where the store's writes raise the mark, and tell
	// by [Sight.Saw].
	Raise func(ctx context.Context, known stet.Identity, step string) (stet.Identity, error)
	// File is where the gate remembers what it has seen, "" for nowhere. It has to be on the disk
	// of this machine.
	File string

	mu      sync.Mutex
	known   stet.Identity
	foreign error     // why the store is another one, if it is
	looked  time.Time // when the last look began that ended well
	looking *look
	rose    time.Time // when the mark was last seen to rise, or was to be raised
	raising bool
	closed  bool
	busy    sync.WaitGroup

	file    sync.Mutex
	written stet.Identity // to File
}

// look is a look that several writes wait for.
type look struct {
	done chan struct{}
	err  error
}

// Open learns which store it is, and gives a new one its identity. A store that has none although
// File remembers one is not new: it is foreign until it is accepted.
func (g *Gate) Open(ctx context.Context) error {
	seen, err := g.read()
	if err != nil {
		return err
	}
	g.known = seen
	now, err := g.Look(ctx)
	if err == nil && now.ID == "" && seen.ID == "" {
		if err = g.Make(ctx, now, stet.Identity{ID: newID(), Made: time.Now().UTC()}); err == nil {
			now, err = g.Look(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("which store it is: %w", err)
	}
	_ = g.Sight().Saw(now) // writes say so
	return nil
}

func newID() string { return "st_" + rand.Text()[:20] }

// Sight is a look at the store, from its beginning. Another one may be earlier or later on its way,
// so that it is compared with what was known when it began.
type Sight struct {
	g     *Gate
	began time.Time
	// Known is what the store has to be: its ID, and its mark at least. The ID is "" where nothing
	// is known.
	Known stet.Identity
}

// Sight begins a look.
func (g *Gate) Sight() Sight {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Sight{g, time.Now(), g.known}
}

// Saw ends the look, which found that the store is now this. The error is [stet.ErrForeign] where
// it is another one than it has to be.
func (s Sight) Saw(now stet.Identity) error {
	g, err := s.g, differs(&s.Known, &now)
	g.mu.Lock()
	newer := s.began.After(g.looked) || s.began.Equal(g.looked)
	if g.known.ID != s.Known.ID { // it was accepted, or is expected to be another, meanwhile
		err = g.foreign
		g.mu.Unlock()
		return err
	}
	if newer {
		g.looked = s.began
	}
	switch {
	case err != nil:
		g.foreign = err
	default:
		if newer {
			g.foreign = nil
		}
		if now.ID != g.known.ID || now.Mark > g.known.Mark {
			g.known, g.rose = now, time.Now()
		}
	}
	known := g.known
	g.mu.Unlock()
	if err == nil {
		g.write(&known)
	}
	return err
}

// differs returns why now is not the store that is known, or nil.
func differs(known, now *stet.Identity) error {
	switch {
	case known.ID == "":
		return nil
	case now.ID == "":
		return fmt.Errorf("%w: the store %s was here, and one without an identity is now; it was emptied, or another one has its address",
			stet.ErrForeign, known.ID)
	case now.ID != known.ID && !slices.Contains(now.Replaces, known.ID):
		return fmt.Errorf("%w: the store %s was here, or is expected, and %s is now", stet.ErrForeign, known.ID, now.ID)
	case now.ID == known.ID && now.Mark < known.Mark:
		return fmt.Errorf("%w: the store %s is at mark %d, and was at %d before: it was set back, as by a backup or by a standby that had not everything",
			stet.ErrForeign, now.ID, now.Mark, known.Mark)
	case now.ID == known.ID && !leadsTo(known, now):
		return fmt.Errorf("%w: the store %s has come to mark %d by another way than it was seen to go: it was set back, and has gone on",
			stet.ErrForeign, now.ID, now.Mark)
	}
	return nil
}

// leadsTo reports whether the mark of known is on the trail of now, as far as both go.
func leadsTo(known, now *stet.Identity) bool {
	at := (now.Mark - known.Mark) * stepSize
	if len(known.Trail) < stepSize || at < 0 || at+stepSize > int64(len(now.Trail)) {
		return true
	}
	return now.Trail[at:at+stepSize] == known.Trail[:stepSize]
}

// Step is a new step of a trail.
func Step() string { return rand.Text()[:stepSize] }

// Write is called before each write. It looks at the store if the last look is too long ago. The
// error is [stet.ErrForeign], or that of the look; nothing may be written after it.
func (g *Gate) Write(ctx context.Context) error {
	g.mu.Lock()
	fresh, foreign := time.Since(g.looked) < Every, g.foreign
	if fresh && foreign == nil {
		g.raiseSoon()
	}
	g.mu.Unlock()
	if fresh {
		return foreign
	}
	if err := g.Again(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.raiseSoon()
	return nil
}

// Foreign returns why the store was another one when it was looked at last, or nil. It is for a
// write within a transaction, which has a connection and must not wait for a second one.
func (g *Gate) Foreign() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.foreign
}

// Again looks at the store now, whenever the last look was: its server was connected to again, or
// has refused a write for what it was said to be.
func (g *Gate) Again(ctx context.Context) error {
	g.mu.Lock()
	l := g.looking
	if l == nil {
		l = &look{done: make(chan struct{})}
		g.looking = l
		g.mu.Unlock()
		l.err = g.now(ctx)
		g.mu.Lock()
		g.looking = nil
		close(l.done)
		g.mu.Unlock()
		return l.err
	}
	g.mu.Unlock()
	select {
	case <-l.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.err != nil && !errors.Is(l.err, stet.ErrForeign) && ctx.Err() == nil { // that one's caller may have had less time
		return g.now(ctx)
	}
	return l.err
}

func (g *Gate) now(ctx context.Context) error {
	s := g.Sight()
	now, err := g.Look(ctx)
	if err != nil {
		return fmt.Errorf("which store it is: %w", err)
	}
	return s.Saw(now)
}

// raiseSoon raises the mark if the last time was long enough ago. The caller has the lock.
func (g *Gate) raiseSoon() {
	if g.Raise == nil || g.raising || g.closed || g.known.ID == "" || time.Since(g.rose) < Every {
		return
	}
	g.raising, g.rose = true, time.Now()
	g.busy.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		s := g.Sight()
		if now, err := g.Raise(ctx, s.Known, Step()); err == nil {
			_ = s.Saw(now) // writes say so
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.raising = false
	})
}

// Close waits for what goes on. No write passes after it.
func (g *Gate) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.busy.Wait()
}

// Identity implements [stet.Identified].
func (g *Gate) Identity(ctx context.Context) (now, known stet.Identity, err error) {
	s := g.Sight()
	if now, err = g.Look(ctx); err != nil {
		return stet.Identity{}, s.Known, fmt.Errorf("which store it is: %w", err)
	}
	err = s.Saw(now)
	return now, s.Known, err
}

// Know implements [stet.Identified].
func (g *Gate) Know(known stet.Identity) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known.ID == known.ID && g.known.Mark > known.Mark {
		known = g.known
	}
	g.known, g.looked = known, time.Time{}
}

// Accept implements [stet.Identified].
func (g *Gate) Accept(ctx context.Context) (stet.Identity, error) {
	known := g.Sight().Known
	was, err := g.Look(ctx)
	if err != nil {
		return stet.Identity{}, fmt.Errorf("which store it is: %w", err)
	}
	next := stet.Identity{ID: newID(), Mark: max(was.Mark, known.Mark) + 1, Made: time.Now().UTC()}
	for _, id := range append([]string{was.ID, known.ID}, slices.Concat(was.Replaces, known.Replaces)...) {
		if id != "" && !slices.Contains(next.Replaces, id) && len(next.Replaces) < maxReplaces {
			next.Replaces = append(next.Replaces, id)
		}
	}
	if err := g.Make(ctx, was, next); err != nil {
		return stet.Identity{}, err
	}
	s := g.Sight()
	now, err := g.Look(ctx)
	if err != nil {
		return stet.Identity{}, fmt.Errorf("which store it is: %w", err)
	}
	if now.ID != next.ID {
		return now, fmt.Errorf("%w: somebody else has accepted it, or it is yet another one: look again", stet.ErrForeign)
	}
	return now, s.Saw(now)
}
