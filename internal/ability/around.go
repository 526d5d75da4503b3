package ability

import (
	"context"
	"errors"
	"sync"

	"github.com/stet-dev/stet"
)

// Around runs one call: it calls [Call.Do], or answers without asking the store. If it returns the error of Do, or one that
// wraps it, the caller gets the results of the store as well; with any other error, the results are zero. An Around must
// not keep c, and must be safe for concurrent use.
type Around func(ctx context.Context, c *Call) error

// Op names a call of a store.
type Op uint8

// The five verbs come first.
const (
	Create Op = iota
	Get
	Replace
	Delete
	Due
	Wait
	List
	Count
	Find
	History
	Append
	Reap
)

// Verb reports whether every store has this call. The others are abilities.
func (o Op) Verb() bool { return o <= Due }

// Call is a call on its way to the store.
type Call struct {
	Op    Op
	ID    stet.ID    // of the record that the call is about; zero if it is about many
	State stet.State // that Create or Replace writes; else zero

	store  stet.Store
	record stet.Record // what Create is given; its Head is what Replace is given
	body   *stet.Body
	prev   stet.Version
	do     func(context.Context, *Call) error
	failed error // what the store returned
	got    results
}

type results struct {
	record  stet.Record
	heads   []stet.Head
	changes []stet.Change
	next    string
	n       int
}

// Do asks the store and returns its error.
func (c *Call) Do(ctx context.Context) error {
	c.failed = c.do(ctx, c)
	return c.failed
}

// Store is a wrapper that [Wrap] made. It has the abilities of the store that it wraps.
type Store struct {
	inner  stet.Store
	around Around
	inTx   bool
	chain  stet.Store
}

var _ stet.Store = (*Store)(nil)

// Wrap returns inner with around at each call that reads or writes records. Check, LogSize and Bind reach inner directly. If
// inTx is set, a store that is bound to a transaction is wrapped too; otherwise its calls are between the caller and inner.
func Wrap(inner stet.Store, around Around, inTx bool) *Store {
	s := &Store{inner: inner, around: around, inTx: inTx}
	has := Of(inner)
	as := &abilities{s, has}
	if !inTx {
		has.Binder = nil // inner's own is found behind the chain
	}
	s.chain = has.Chain(s, as, inner)
	return s
}

// Unwrap lets [stet.As] find the abilities of the inner store.
func (s *Store) Unwrap() stet.Store { return s.chain }

// calls are reused: a wrapped call allocates nothing of its own.
var calls = sync.Pool{New: func() any { return new(Call) }}

func (s *Store) call(op Op, id stet.ID, do func(context.Context, *Call) error) *Call {
	c := calls.Get().(*Call)
	c.Op, c.ID, c.store, c.do = op, id, s.inner, do
	return c
}

func (c *Call) free() {
	*c = Call{}
	calls.Put(c)
}

func (s *Store) run(ctx context.Context, c *Call) error {
	err := s.around(ctx, c)
	if !errors.Is(err, c.failed) {
		c.got = results{}
	}
	return err
}

// Create implements [stet.Store].
func (s *Store) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	c := s.call(Create, r.ID, func(ctx context.Context, c *Call) (err error) {
		c.got.record, err = c.store.Create(ctx, c.record)
		return err
	})
	defer c.free()
	c.State, c.record = r.State, r
	err := s.run(ctx, c)
	return c.got.record, err
}

// Get implements [stet.Store].
func (s *Store) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	c := s.call(Get, id, func(ctx context.Context, c *Call) (err error) {
		c.got.record, err = c.store.Get(ctx, c.ID)
		return err
	})
	defer c.free()
	err := s.run(ctx, c)
	return c.got.record, err
}

// Replace implements [stet.Store].
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	c := s.call(Replace, h.ID, func(ctx context.Context, c *Call) (err error) {
		c.got.record.Head, err = c.store.Replace(ctx, c.prev, c.record.Head, c.body)
		return err
	})
	defer c.free()
	c.State, c.prev, c.record.Head, c.body = h.State, prev, h, b
	err := s.run(ctx, c)
	return c.got.record.Head, err
}

// Delete implements [stet.Store].
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	c := s.call(Delete, id, func(ctx context.Context, c *Call) error { return c.store.Delete(ctx, c.ID, c.prev) })
	defer c.free()
	c.prev = prev
	return s.run(ctx, c)
}

// Due implements [stet.Store].
func (s *Store) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	got, err := s.ask(ctx, Due, stet.ID{}, func(ctx context.Context, r *results) (err error) {
		r.heads, r.next, err = s.inner.Due(ctx, q)
		return err
	})
	return got.heads, got.next, err
}

// ask makes a call that need not be fast.
func (s *Store) ask(ctx context.Context, op Op, id stet.ID, do func(context.Context, *results) error) (results, error) {
	c := s.call(op, id, func(ctx context.Context, c *Call) error { return do(ctx, &c.got) })
	defer c.free()
	err := s.run(ctx, c)
	return c.got, err
}

// abilities are those of the inner store, with Around at each of their calls.
type abilities struct {
	s   *Store
	has Set
}

var _ All = (*abilities)(nil)

func (a *abilities) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	_, err := a.s.ask(ctx, Wait, id, func(ctx context.Context, _ *results) error { return a.has.Wait(ctx, id, seen) })
	return err
}

func (a *abilities) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	got, err := a.s.ask(ctx, List, stet.ID{}, func(ctx context.Context, r *results) (err error) {
		r.heads, r.next, err = a.has.List(ctx, q)
		return err
	})
	return got.heads, got.next, err
}

func (a *abilities) Count(ctx context.Context, q stet.Query) (int, error) {
	got, err := a.s.ask(ctx, Count, stet.ID{}, func(ctx context.Context, r *results) (err error) {
		r.n, err = a.has.Count(ctx, q)
		return err
	})
	return got.n, err
}

func (a *abilities) Find(ctx context.Context, name string) ([]stet.Head, error) {
	got, err := a.s.ask(ctx, Find, stet.ID{}, func(ctx context.Context, r *results) (err error) {
		r.heads, err = a.has.Find(ctx, name)
		return err
	})
	return got.heads, err
}

func (a *abilities) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	got, err := a.s.ask(ctx, History, q.ID, func(ctx context.Context, r *results) (err error) {
		r.changes, r.next, err = a.has.History(ctx, q)
		return err
	})
	return got.changes, got.next, err
}

func (a *abilities) Append(ctx context.Context, e stet.Change) error {
	_, err := a.s.ask(ctx, Append, e.ID, func(ctx context.Context, _ *results) error { return a.has.Append(ctx, e) })
	return err
}

func (a *abilities) Reap(ctx context.Context, limit int) (int, error) {
	got, err := a.s.ask(ctx, Reap, stet.ID{}, func(ctx context.Context, r *results) (err error) {
		r.n, err = a.has.Reap(ctx, limit)
		return err
	})
	return got.n, err
}

func (a *abilities) Bind(tx any) (stet.Store, error) {
	bound, err := a.has.Bind(tx)
	if err != nil || !a.s.inTx {
		return bound, err
	}
	return Wrap(bound, a.s.around, true), nil
}

func (a *abilities) Check(ctx context.Context) error { return a.has.Check(ctx) }
func (a *abilities) LogSize() (int64, error)         { return a.has.LogSize() }
