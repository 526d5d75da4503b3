package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet/internal/stopwatch"
)

// Operator is what operators and background loops do with the records of an [Engine]: they look at
// them, end what is unknown on evidence, and move what has fallen due. Nothing on the path of a
// request needs it. It is safe for concurrent use.
type Operator struct{ e *Engine }

// Operator returns the operator's side of the engine.
func (e *Engine) Operator() *Operator { return &Operator{e} }

// List pages through records: see [Lister]. Stet's own records are included only if the query asks
// for [OwnScope]. It changes nothing. The error is [ErrUnsupported] if the store cannot list.
func (o *Operator) List(ctx context.Context, q Query) (heads []Head, next string, err error) {
	if err := queryBounds.Check(&q); err != nil {
		return nil, "", err
	}
	err = look(ctx, o.e, "list", errNoList, func(ctx context.Context, l Lister) error {
		heads, next, err = l.List(ctx, q)
		return err
	})
	return withoutOwn(&q, heads), next, err
}

// Count counts records: see [Counter]. Stet's own records are counted only if the query asks for
// [OwnScope]. It changes nothing. The error is [ErrUnsupported] if the store cannot count.
func (o *Operator) Count(ctx context.Context, q Query) (n int, err error) {
	if err := queryBounds.Check(&q); err != nil {
		return 0, err
	}
	err = look(ctx, o.e, "count", errNoCount, func(ctx context.Context, c Counter) error {
		mine := o.e.ownCount(ctx, &q)
		if mine > 0 {
			q.Limit = cmp.Or(max(q.Limit, 0), DefaultLimit) + mine
		}
		n, err = c.Count(ctx, q)
		n = max(0, n-mine)
		return err
	})
	return n, err
}

// look calls the store by an ability for a caller that waits for the answer: it ends with ctx, or
// after StoreTimeout. If the store lacks the ability, the error is lacks.
func look[T any](ctx context.Context, e *Engine, op string, lacks error, ask func(context.Context, T) error) error {
	able, ok := As[T](e.store)
	if !ok {
		return lacks
	}
	call, cancel := context.WithTimeout(ctx, e.cfg.StoreTimeout)
	defer cancel()
	began := stopwatch.Start(e.Observed())
	err := ask(call, able)
	failed := err
	if errors.Is(ctx.Err(), context.Canceled) { // the caller has gone, which is no failure of the store
		failed = nil
	}
	e.called(op, began, failed)
	return err
}

// History pages through the changes that operators and loops made: see [Historian]. The error is
// [ErrUnsupported] if the store keeps no history.
func (o *Operator) History(ctx context.Context, q HistoryQuery) (changes []Change, next string, err error) {
	if err := historyQueryBounds.Check(&q); err != nil {
		return nil, "", err
	}
	err = look(ctx, o.e, "history", errNoHistory, func(ctx context.Context, h Historian) error {
		changes, next, err = h.History(ctx, q)
		return err
	})
	return changes, next, err
}

// Find returns the records of a scope that other systems know by name, or those of all scopes if
// scope is empty: by the key that Stet derives (see [Head.LifeKey]), and by the names that were
// reported, as [Finder] says. The error is [ErrUnsupported] if the store cannot find them.
func (o *Operator) Find(ctx context.Context, scope Scope, name string) (heads []Head, err error) {
	if tag, ok := tagOf(name); ok {
		heads, err = o.derived(ctx, Query{Scope: scope, Tag: tag}, name)
		if len(heads) > 0 || err != nil {
			return heads, err
		}
	}
	err = look(ctx, o.e, "find", errNoFind, func(ctx context.Context, f Finder) error {
		heads, err = f.Find(ctx, scope, name)
		return err
	})
	return heads, err
}

// derived returns the records that a key of [Head.LifeKey] is of: one, or none.
func (o *Operator) derived(ctx context.Context, q Query, key string) (all []Head, err error) {
	for {
		heads, next, err := o.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range heads {
			if heads[i].LifeKey() == key {
				all = append(all, heads[i])
			}
		}
		if q.After = next; next == "" {
			return all, nil
		}
	}
}

// ByTag returns the head of the record with this [Head].Tag, or [ErrNotFound]. It goes by the tag
// that is stored: after a change of the Pepper a record keeps the tag of its last write. The error
// is [ErrUnsupported] if the store cannot list.
func (o *Operator) ByTag(ctx context.Context, tag string) (Head, error) {
	for q := (Query{Tag: tag, Limit: 2}); tag != ""; {
		heads, next, err := o.List(ctx, q)
		switch {
		case err != nil:
			return Head{}, err
		case len(heads) > 1:
			return Head{}, fmt.Errorf("stet: %d records have the id %s: name the one by its scope and key", len(heads), tag)
		case len(heads) == 1:
			return heads[0], nil
		}
		if q.After = next; next == "" {
			break
		}
	}
	return Head{}, ErrNotFound
}

// Audit adds an entry to the history that changes no record: that an operator was shown a record or
// was refused, or did something other than changing records. id is zero if the entry is about no
// record. The note needs Who and Action.
//
// When Audit returns nil, the entry is stored and outlives the record. After an error it may be
// stored or not, and the action that it precedes must not be taken. The end of ctx does not
// interrupt it, so that a client that hangs up leaves the entry behind. The error is
// [ErrUnsupported] if the store keeps no history.
func (o *Operator) Audit(ctx context.Context, id ID, n Note) error {
	return o.AuditOf(ctx, &Head{ID: id}, n)
}

// AuditOf is [Operator.Audit] about one attempt of a record: h is the record as it was read, and
// the entry has its Attempt.
func (o *Operator) AuditOf(ctx context.Context, h *Head, n Note) error {
	call := detach(ctx, o.e.cfg.StoreTimeout)
	defer call.release()
	began := stopwatch.Start(o.e.Observed())
	err := o.e.entry(call, o.e.store, Change{ID: h.ID, Attempt: h.Attempt, Note: n})
	if !errors.Is(err, errNoHistory) {
		o.e.called("audit", began, err)
	}
	return err
}

// AuditIn is [Operator.Audit] within tx, a transaction of the caller's on the database that holds
// the records: the entry is stored if and when tx is committed. tx is of a type that the store's
// [Binder] takes, else the error is [ErrForeignTx]. After any other error tx must be rolled back.
func (o *Operator) AuditIn(ctx context.Context, tx any, id ID, n Note) error {
	bound, err := bind(o.e.store, tx)
	if err != nil {
		return fmt.Errorf("stet: AuditIn: %w", err)
	}
	call := detach(ctx, o.e.cfg.StoreTimeout)
	defer call.release()
	return o.e.entry(call, bound, Change{ID: id, Note: n})
}

func (e *Engine) entry(ctx context.Context, s Store, c Change) error {
	if blank(c.Note.Who) || c.Note.Action == "" {
		return errors.New("stet: an audit entry needs who did it and what: give the note Who and Action")
	}
	h, ok := As[Historian](s)
	if !ok {
		return errNoHistory
	}
	if c.ID != (ID{}) {
		c.Tag = e.Tag(c.ID)
	}
	return h.Append(ctx, c)
}

// blank reports whether s has nothing to read in it.
func blank(s string) bool { return strings.TrimSpace(s) == "" }

// OwnScope is the scope of the records that Stet keeps for itself, such as the jobs of package
// bulk. No client can have it: no field value of HTTP begins with a space (RFC 9110 section 5.5),
// and package stethttp refuses it from every other source. Lists and counts leave its records out,
// unless they ask for this scope.
const OwnScope Scope = " stet"

// withoutOwn removes Stet's own records from a page that did not ask for them.
func withoutOwn(q *Query, heads []Head) []Head {
	if q.Scope == OwnScope {
		return heads
	}
	return slices.DeleteFunc(heads, func(h Head) bool { return h.Scope == OwnScope })
}

// own remembers Stet's own records, of which there are few, so that counts can leave them out: some
// stores count one scope by looking at every record.
type own struct {
	heads      atomic.Pointer[[]Head]
	refreshing sync.Mutex
	until      time.Time   // when to look again; guarded by refreshing
	moved      atomic.Bool // this engine has made or ended one since they were read
}

// ownFor is the least time for which they are remembered. If it took long to read them, the time is
// longer, so that reading takes at most a hundredth of it.
const ownFor = 10 * time.Second

// ownCount is how many of Stet's own records q selects. It may be a little old, and is 0 if the
// store cannot tell, so that a count goes on.
func (e *Engine) ownCount(ctx context.Context, q *Query) (n int) {
	if q.Scope != "" {
		return 0
	}
	o := &e.own
	if o.refreshing.TryLock() { // a count does not wait for another one's look at the store
		if began := time.Now(); o.moved.Swap(false) || began.After(o.until) {
			if heads, err := ownHeads(ctx, e.store, e.cfg.StoreTimeout/4); err == nil {
				o.heads.Store(&heads)
			}
			o.until = time.Now().Add(max(ownFor, 100*time.Since(began)))
		}
		o.refreshing.Unlock()
	}
	if known := o.heads.Load(); known != nil {
		for i := range *known {
			if q.Matches(&(*known)[i]) {
				n++
			}
		}
	}
	return n
}

// ownHeads reads them within a part of the time for a call, since the count comes after it.
func ownHeads(ctx context.Context, s Store, within time.Duration) (all []Head, err error) {
	l, ok := As[Lister](s)
	if !ok {
		return nil, errNoList
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for q := (Query{Scope: OwnScope, Limit: MaxLimit}); ; {
		heads, next, err := l.List(ctx, q)
		if all = append(all, heads...); err != nil || next == "" {
			return all, err
		}
		q.After = next
	}
}
