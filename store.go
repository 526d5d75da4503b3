package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Store keeps versioned records and judges nothing. Each verb is atomic for one key, and durable, as far as the store
// promises durability, when it returns. All of them are safe for concurrent use, also from several processes where the
// store says so.
//
// Laws (package storetest checks them): a store owns the clock, stamps CreatedAt, UpdatedAt, CompletedAt, DueAt and AsOf as
// [Head] says, and takes no instant from a writer but a CreatedAt and CompletedAt it stamped itself. It keeps no reference to what it is
// given, and what it returns is read-only. It heeds the context's deadline; a verb that failed may have happened, and
// nothing else may have. It never evicts a live record: without room it answers [ErrFull]. A record that cannot be read is
// [ErrCorrupt] for its key alone.
type Store interface {
	// Create stores r if its ID is free, and returns it as stored. Otherwise: [ErrExists] and the whole incumbent.
	Create(ctx context.Context, r Record) (Record, error)
	// Get returns the record, or [ErrNotFound].
	Get(ctx context.Context, id ID) (Record, error)
	// Replace stores h, and b if it is not nil (a nil b leaves the stored Body as it is), if the record's Version is prev.
	// Otherwise: [ErrStale] and the Head that is there, or [ErrNotFound].
	Replace(ctx context.Context, prev Version, h Head, b *Body) (Head, error)
	// Delete removes the record if its Version is prev. Otherwise: [ErrStale] or [ErrNotFound].
	Delete(ctx context.Context, id ID, prev Version) error
	// Due pages through the Heads whose DueAt has passed, earliest first. The next cursor, for [Query].After, is "" after the last
	// page; a page may be short, or empty, before that: records that cannot be read are left out. A walk that follows the cursor
	// sees every record that is due from its beginning to its end, once, whatever is written meanwhile.
	Due(ctx context.Context, q Query) (heads []Head, next string, err error)
}

// Query selects records. Zero fields select all.
type Query struct {
	States    []State
	Scope     Scope
	Route     string
	Failed    bool          // only results (Completed) with a status of 500 and above
	Succeeded bool          // only results (Completed) with a status below 500
	OlderThan time.Duration // created at least so long ago
	// NewerThan: created less long ago than that. Counting these is cheap where nothing but Scope and OlderThan is asked besides: a
	// store may walk through the latest rows alone, and leave out a key whose new life began in an old one.
	NewerThan time.Duration

	Tag                          string // exactly this [Head].Tag: a Lister finds it by an index
	Key                          Key    // exactly this key, in any scope or in Scope
	Path, Method, Cause, TraceID string // exactly
	Escalated                    bool   // only dead letters: Unknown ones whose probes are used up

	Oldest bool   // List: its order the other way round
	After  string // Due, List: the cursor of the page before
	Limit  int    // 0 means [DefaultLimit]
}

// Matches reports whether the query selects h, by what h says and by when it was read. Stores that filter in their own language
// give the same answer.
func (q *Query) Matches(h *Head) bool {
	switch {
	case len(q.States) > 0 && !slices.Contains(q.States, h.State),
		q.Scope != "" && q.Scope != h.Scope,
		q.Route != "" && q.Route != h.Route,
		q.Failed && (h.State != Completed || h.Status < 500),
		q.Succeeded && (h.State != Completed || h.Status >= 500),
		q.OlderThan > 0 && h.CreatedAt.After(h.AsOf.Add(-q.OlderThan)),
		q.NewerThan > 0 && !h.CreatedAt.After(h.AsOf.Add(-q.NewerThan)),
		q.Tag != "" && q.Tag != h.Tag,
		q.Key != "" && q.Key != h.Key,
		q.Path != "" && q.Path != h.Path,
		q.Method != "" && q.Method != h.Method,
		q.Cause != "" && q.Cause != h.Cause,
		q.TraceID != "" && q.TraceID != h.TraceID,
		q.Escalated && (h.State != Unknown || !h.Escalated):
		return false
	}
	return true
}

// ByState reports whether the query selects by state alone, which costs many stores less.
func (q *Query) ByState() bool {
	return q.Scope == "" && q.Route == "" && !q.Failed && !q.Succeeded && q.OlderThan <= 0 && q.NewerThan <= 0 && !q.ByDetail()
}

// ByDetail reports whether the query selects by what few ask for, and few stores have an index for: all but States, Scope, Route,
// Failed, Succeeded, OlderThan and NewerThan.
func (q *Query) ByDetail() bool {
	return q.Tag != "" || q.Key != "" || q.Path != "" || q.Method != "" || q.Cause != "" || q.TraceID != "" || q.Escalated
}

// Bound is how many records a page of the query holds at most: its Limit, with the default, up to [MaxLimit].
func (q *Query) Bound() int { return min(cmp.Or(max(q.Limit, 0), DefaultLimit), MaxLimit) }

// DefaultLimit is how many records a [Query] without a Limit returns; [MaxLimit] is the most one may ask for.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Optional abilities of a store, found with [As].
type (
	// Waiter waits for a record to change. It returns nil when the record's Version may no longer be seen, possibly for
	// nothing, and the context's error when that ends first.
	Waiter interface {
		Wait(ctx context.Context, id ID, seen Version) error
	}
	// Lister pages through records in a stable order: the newest first, unless the store says that it has another order. With
	// [Query].Oldest it is exactly the reverse. The next cursor is "" after the last page; a page may be short, or empty, before
	// that: a store looks through so many records for one page, and no further. A walk that follows the cursor sees every record that
	// is there from its beginning to its end, once, whatever is written meanwhile. A [Query].Tag is found by an index.
	Lister interface {
		List(ctx context.Context, q Query) (heads []Head, next string, err error)
	}
	// Counter counts records, at bounded cost: it may stop counting at q.Limit, which may be above [MaxLimit]; 0 means
	// [DefaultLimit] here, too.
	Counter interface {
		Count(ctx context.Context, q Query) (int, error)
	}
	// Finder finds the records whose DownstreamKey or DownstreamID is name, [DefaultLimit] of them at most: a provider's
	// notice knows only its own names.
	Finder interface {
		Find(ctx context.Context, name string) ([]Head, error)
	}
	// Historian keeps what people and keepers did. Every Replace whose Head has a Note adds a [Change], in the same atomic
	// write: a change is never without its entry. Entries are never changed, and outlive their record.
	Historian interface {
		// History pages through the changes, newest first. The next cursor is "" after the last page; a page may be short, or
		// empty, before that: what a filter passes over costs the reader a page, and never the store a walk through everything.
		History(ctx context.Context, q HistoryQuery) (changes []Change, next string, err error)
		// Append adds an entry that changes no record: that somebody was shown one, or was turned away. The store takes c's ID, which
		// may be zero, Tag, Attempt and Note, and stamps At; From and To are zero. It is durable like a write, and where the store is
		// bound to a transaction it is part of that. One that failed may have happened.
		Append(ctx context.Context, c Change) error
	}
	// Reaper removes many records whose time is over, for a fraction of what it costs to remove each by itself: those that are
	// due and Completed without Rules.KeepExpired, Retryable, or Expired; up to limit of them, about the oldest first. Others are never
	// touched, nor those that somebody changes in that instant. It returns how many it removed; fewer than limit means that it found
	// no more. Several may do so at once. It goes by the state and the instant alone, and reads nothing else of a record: one that
	// is damaged elsewhere goes with the others when its time is over.
	Reaper interface {
		Reap(ctx context.Context, limit int) (n int, err error)
	}
	// Binder joins transactions of its callers.
	Binder interface {
		// Bind returns the store within tx: its verbs are part of tx, and happen when and if tx is committed, by the caller.
		// A verb that fails may have made tx unusable. tx is of a type that the store says, such as [*database/sql.Tx];
		// anything else is [ErrForeignTx]. The bound store is for one goroutine, and good until tx ends.
		Bind(tx any) (Store, error)
	}
	// Checker looks again at what the store's durability rests on and others can change while it is open: the settings of its
	// server, or of each of its servers. An error that is [ErrVolatile] says which of them loses records; any other, that they
	// could not be read. Nil where [ErrVolatile] would be, if the store was opened so that it takes such a server. It is cheap
	// enough for once a minute, heeds ctx, and writes nothing.
	Checker interface {
		Check(ctx context.Context) error
	}
	// Closer is a store with something to close: files, goroutines, connections it opened itself.
	Closer interface {
		Close() error
	}
)

// Change is an entry of the history: a write that had a [Note], or what [Historian].Append was given.
type Change struct {
	ID       ID
	Tag      string // of the record, as the engine that wrote the entry shows it; "" where it is about none
	From, To State  // zero where no record was changed
	Attempt  int
	At       time.Time // by the store's clock
	Note     Note
}

// HistoryQuery selects changes. Zero fields select all.
type HistoryQuery struct {
	ID    ID     // both parts, or neither
	Tag   string // exact, as Scope and Who are
	Scope Scope
	Who   string // of the note
	After string // the cursor of the page before
	Limit int    // 0 means [DefaultLimit]; at most [MaxLimit]
}

// Matches reports whether the query selects c. Stores that filter in their own language give the same answer.
func (q *HistoryQuery) Matches(c *Change) bool {
	return (q.ID == ID{} || q.ID == c.ID) && (q.Tag == "" || q.Tag == c.Tag) &&
		(q.Scope == "" || q.Scope == c.ID.Scope) && (q.Who == "" || q.Who == c.Note.Who)
}

// Bound is how many changes a page of the query holds at most.
func (q *HistoryQuery) Bound() int { return (&Query{Limit: q.Limit}).Bound() }

// Errors of stores. Everything else is infrastructure: the verb may or may not have happened.
var (
	ErrExists   = errors.New("stet: a record with this ID exists")
	ErrStale    = errors.New("stet: the record has another version")
	ErrNotFound = errors.New("stet: no record with this ID")
	ErrCorrupt  = errors.New("stet: the record cannot be read")             // of this key; nothing was changed
	ErrFull     = errors.New("stet: the store has no room for new records") // nothing was stored

	// ErrUnconfirmed is infrastructure, too, and says more: the server answers, and the write may
	// have happened, but not on as many of its replicas as it has to. It stays an error however
	// often the same write is sent, until they have it.
	ErrUnconfirmed = errors.New("stet: the write is not confirmed by enough replicas")

	ErrVolatile  = errors.New("stet: the store may lose what it acknowledged")          // by its server's settings; see Checker
	ErrForeignTx = errors.New("stet: the store cannot join a transaction of this kind") // nothing was done
)

// ErrUnsupported is returned when the store lacks the ability that a call needs, such as [Lister]. Its text names the ability.
var ErrUnsupported = errors.New("stet: the store does not support this")

var (
	errNoList    = fmt.Errorf("%w: it cannot list its records", ErrUnsupported)
	errNoCount   = fmt.Errorf("%w: it cannot count its records", ErrUnsupported)
	errNoFind    = fmt.Errorf("%w: it cannot find records by their downstream names", ErrUnsupported)
	errNoHistory = fmt.Errorf("%w: it keeps no history of changes", ErrUnsupported)
)

// As finds an ability of s or of what it wraps. Wrappers have Unwrap() Store; one that must not be bypassed offers the
// ability itself, and so is found first.
func As[T any](s Store) (T, bool) {
	for s != nil {
		if t, ok := s.(T); ok {
			return t, true
		}
		u, ok := s.(interface{ Unwrap() Store })
		if !ok {
			break
		}
		s = u.Unwrap()
	}
	var none T
	return none, false
}
