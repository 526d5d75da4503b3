package ability

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stet-dev/stet"
)

// Around runs one call: it calls [Call.Do], or answers without asking the store. If it returns the
// error of Do, or one that wraps it, the caller gets the results of the store as well; with any
// other error, the results are zero. An Around must not keep c, and must be safe for concurrent
// use.
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
	Trim
	Erase
)

// Verb reports whether every store has this call. The others are abilities.
func (o Op) Verb() bool { return o <= Due }

// Call is a call on its way to the store.
type Call struct {
	Op    Op
	ID    stet.ID    // of the record that the call is about; zero if it is about many
	State stet.State // that Create or Replace writes; else zero

	store  stet.Store
	given  stet.Record // to Create; its Head is given to Replace
	prev   stet.Version
	body   *stet.Body
	do     func(context.Context, *Call) error
	got    stet.Record // by the verbs; Replace got a Head
	failed error       // what the store returned
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

// Wrap returns inner with around at each call that reads or writes records. The other abilities
// reach inner directly. If inTx is set, a store that is bound to a transaction is wrapped too;
// otherwise its calls are between the caller and inner.
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

// end returns the results of the call, if err is the store's own, and err.
func (c *Call) end(err error) (got stet.Record, _ error) {
	if errors.Is(err, c.failed) {
		got = c.got
	}
	*c = Call{}
	calls.Put(c)
	return got, err
}

// Create implements [stet.Store].
func (s *Store) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	c := s.call(Create, r.ID, func(ctx context.Context, c *Call) (err error) {
		c.got, err = c.store.Create(ctx, c.given)
		return err
	})
	c.State, c.given = r.State, r
	return c.end(s.around(ctx, c))
}

// Get implements [stet.Store].
func (s *Store) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	c := s.call(Get, id, func(ctx context.Context, c *Call) (err error) {
		c.got, err = c.store.Get(ctx, c.ID)
		return err
	})
	return c.end(s.around(ctx, c))
}

// Replace implements [stet.Store].
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	c := s.call(Replace, h.ID, func(ctx context.Context, c *Call) (err error) {
		c.got.Head, err = c.store.Replace(ctx, c.prev, c.given.Head, c.body)
		return err
	})
	c.State, c.prev, c.given.Head, c.body = h.State, prev, h, b
	got, err := c.end(s.around(ctx, c))
	return got.Head, err
}

// Delete implements [stet.Store].
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	c := s.call(Delete, id, func(ctx context.Context, c *Call) error { return c.store.Delete(ctx, c.ID, c.prev) })
	c.prev = prev
	_, err := c.end(s.around(ctx, c))
	return err
}

// Due implements [stet.Store].
func (s *Store) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	due := func(ctx context.Context, q stet.Query) ([]stet.Head, string, error) { return s.inner.Due(ctx, q) } // there may be no inner store
	return page(ctx, s, Due, stet.ID{}, q, due)
}

// abilities are those of the inner store, with Around at each of their calls.
type abilities struct {
	s   *Store
	has Set
}

var _ All = (*abilities)(nil)

func (a *abilities) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	_, err := a.s.ask(ctx, Wait, id, func(ctx context.Context) error { return a.has.Wait(ctx, id, seen) })
	return err
}

func (a *abilities) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	return page(ctx, a.s, List, stet.ID{}, q, a.has.List)
}

func (a *abilities) Count(ctx context.Context, q stet.Query) (int, error) {
	return one(ctx, a.s, Count, q, a.has.Count)
}

func (a *abilities) Find(ctx context.Context, scope stet.Scope, name string) ([]stet.Head, error) {
	return one(ctx, a.s, Find, name, func(ctx context.Context, name string) ([]stet.Head, error) { return a.has.Find(ctx, scope, name) })
}

func (a *abilities) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	return page(ctx, a.s, History, q.ID, q, a.has.History)
}

func (a *abilities) Append(ctx context.Context, e stet.Change) error {
	_, err := a.s.ask(ctx, Append, e.ID, func(ctx context.Context) error { return a.has.Append(ctx, e) })
	return err
}

func (a *abilities) Reap(ctx context.Context, limit int) (int, error) {
	return one(ctx, a.s, Reap, limit, a.has.Reap)
}

func (a *abilities) Trim(ctx context.Context, age time.Duration, limit int) (int, error) {
	return one(ctx, a.s, Trim, limit, func(ctx context.Context, limit int) (int, error) { return a.has.Trim(ctx, age, limit) })
}

func (a *abilities) Erase(ctx context.Context, q stet.HistoryQuery) (int, error) {
	var n int
	own, err := a.s.ask(ctx, Erase, q.ID, func(ctx context.Context) (err error) { n, err = a.has.Erase(ctx, q); return err })
	if !own {
		n = 0
	}
	return n, err
}

func (a *abilities) Bind(tx any) (stet.Store, error) {
	bound, err := a.has.Bind(tx)
	if err != nil || !a.s.inTx {
		return bound, err
	}
	return Wrap(bound, a.s.around, true), nil
}

func (a *abilities) Undoable(ctx context.Context, cause error) error {
	return a.has.Undoable(ctx, cause)
}
func (a *abilities) Check(ctx context.Context) error { return a.has.Check(ctx) }
func (a *abilities) Sizes() stet.Sizes               { return a.has.Sizes() }
func (a *abilities) Left() []stet.Head               { return a.has.Left() }
func (a *abilities) LogSize() (int64, error)         { return a.has.LogSize() }

func (a *abilities) Identity(ctx context.Context) (now, known stet.Identity, err error) {
	return a.has.Identity(ctx)
}
func (a *abilities) Know(known stet.Identity)                          { a.has.Know(known) }
func (a *abilities) Accept(ctx context.Context) (stet.Identity, error) { return a.has.Accept(ctx) }

// ask makes a call with results of its own, and reports whether err is the store's: else, the
// caller gets none of them.
func (s *Store) ask(ctx context.Context, op Op, id stet.ID, do func(context.Context) error) (own bool, err error) {
	c := s.call(op, id, func(ctx context.Context, _ *Call) error { return do(ctx) })
	err = s.around(ctx, c)
	own = errors.Is(err, c.failed)
	_, err = c.end(err)
	return own, err
}

func page[Q, T any](ctx context.Context, s *Store, op Op, id stet.ID, q Q,
	do func(context.Context, Q) ([]T, string, error)) (got []T, next string, err error) {
	own, err := s.ask(ctx, op, id, func(ctx context.Context) (err error) { got, next, err = do(ctx, q); return err })
	if !own {
		return nil, "", err
	}
	return got, next, err
}

func one[Q, T any](ctx context.Context, s *Store, op Op, q Q, do func(context.Context, Q) (T, error)) (got T, err error) {
	own, err := s.ask(ctx, op, stet.ID{}, func(ctx context.Context) (err error) { got, err = do(ctx, q); return err })
	if !own {
		got = *new(T)
	}
	return got, err
}
