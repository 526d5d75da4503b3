package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Store keeps versioned records and decides nothing. Each method is atomic for one key and, as far
// as the store promises durability, durable when it returns. All methods are safe for concurrent
// use, and from several processes if the store says so.
//
// Package storetest checks the laws that every store keeps. A store owns the clock: it stamps
// CreatedAt, UpdatedAt, CompletedAt, DueAt and AsOf as [Head] says, and takes no instant from a
// writer but a CreatedAt and CompletedAt that it stamped itself. It keeps no reference to its
// arguments, and what it returns is read-only. It heeds the context's deadline; a method that
// failed may have had its effect, and nothing else. It reads a body only if that takes no more
// memory than [MaxBody], and otherwise says how much it takes: see [Body].Left. It never evicts a
// live record: without room it returns [ErrFull]. A record that cannot be read is [ErrCorrupt] for
// its key alone.
type Store interface {
	// Create stores r if its ID is free, and returns it as stored. Otherwise it returns [ErrExists]
	// and the record that is there, as Get does.
	Create(ctx context.Context, r Record) (Record, error)
	// Get returns the record, or [ErrNotFound].
	Get(ctx context.Context, id ID) (Record, error)
	// Replace stores h if the record's Version is prev, and b with it if b is non-nil (a nil b
	// leaves the stored Body as it is). Otherwise it returns [ErrStale] and the Head that is there,
	// or [ErrNotFound].
	Replace(ctx context.Context, prev Version, h Head, b *Body) (Head, error)
	// Delete removes the record if its Version is prev. Otherwise it returns [ErrStale] or
	// [ErrNotFound].
	Delete(ctx context.Context, id ID, prev Version) error
	// Due pages through the Heads whose DueAt has passed, earliest first. The next cursor, for
	// [Query].After, is "" after the last page. A page may be short, or empty, before that: records
	// that cannot be read are left out. A walk that follows the cursor sees every record once that
	// is due from the walk's beginning to its end, whatever is written meanwhile.
	Due(ctx context.Context, q Query) (heads []Head, next string, err error)
}

// Query selects records. A zero field selects all.
type Query struct {
	States    []State
	Scope     Scope
	Route     string
	Failed    bool          // only results (Completed) with a status of 500 and above
	Succeeded bool          // only results (Completed) with a status below 500
	OlderThan time.Duration // only records that are at least this old
	// NewerThan selects only records that are younger than this. Counting these is cheap where
	// nothing but Scope and OlderThan is asked besides: a store may walk through the latest rows
	// alone, and leave out a key whose new life began in an old one.
	NewerThan time.Duration

	Tag                          string // exactly this [Head].Tag: a Lister finds it by an index
	Key                          Key    // exactly this key, in any scope or in Scope
	Path, Method, Cause, TraceID string // exactly
	Escalated                    bool   // only dead letters: Unknown ones whose probes are used up

	Oldest bool   // List: its order the other way round
	After  string // Due, List: the cursor of the page before
	Limit  int    // 0 means [DefaultLimit]
}

// Matches reports whether the query selects h, by what h says and by when it was read. A store that
// filters in its own language gives the same answer.
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

// ByDetail reports whether the query selects by a field that few queries use and few stores have an
// index for: any but States, Scope, Route, Failed, Succeeded, OlderThan and NewerThan.
func (q *Query) ByDetail() bool {
	return q.Tag != "" || q.Key != "" || q.Path != "" || q.Method != "" || q.Cause != "" || q.TraceID != "" || q.Escalated
}

// Bound is how many records a page of the query holds at most: its Limit or [DefaultLimit], up to
// [MaxLimit].
func (q *Query) Bound() int { return min(cmp.Or(max(q.Limit, 0), DefaultLimit), MaxLimit) }

// DefaultLimit is how many records a [Query] without a Limit returns; [MaxLimit] is the most one
// may ask for.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Optional abilities of a store, found with [As]. One that has something to close, such as files,
// goroutines, or connections that it opened itself, is an [io.Closer] besides.
type (
	// Waiter waits for a record to change. Wait returns nil when the record may have another
	// Version than seen, and the context's error when that ends first.
	Waiter interface {
		Wait(ctx context.Context, id ID, seen Version) error
	}
	// Lister pages through records in a stable order: newest first, unless the store documents
	// another order. With [Query].Oldest the order is exactly reversed. The next cursor is "" after
	// the last page. A page may be short, or empty, before that, because a store looks through a
	// bounded number of records for one page. A walk that follows the cursor sees every record once
	// that is there from the walk's beginning to its end, whatever is written meanwhile. A
	// [Query].Tag is found by an index.
	Lister interface {
		List(ctx context.Context, q Query) (heads []Head, next string, err error)
	}
	// Counter counts records at bounded cost: it may stop at q.Limit, which may be above
	// [MaxLimit]; 0 means [DefaultLimit].
	Counter interface {
		Count(ctx context.Context, q Query) (int, error)
	}
	// Finder finds the records of a scope, or of all scopes if it is empty, whose DownstreamKey or
	// DownstreamID is name: [DefaultLimit] of them at most. A provider's notice knows only its own
	// names, and several tenants may have the same.
	Finder interface {
		Find(ctx context.Context, scope Scope, name string) ([]Head, error)
	}
	// Historian keeps what operators and background loops did. Every Replace whose Head has a Note
	// adds a [Change] in the same atomic write, so that no change is without its entry. Entries
	// outlive their record. Only a [Forgetter] changes or removes them.
	Historian interface {
		// History pages through the changes, newest first. The next cursor is "" after the last
		// page. A page may be short, or empty, before that: a filter costs its reader pages, and
		// never costs the store a walk through everything.
		History(ctx context.Context, q HistoryQuery) (changes []Change, next string, err error)
		// Append adds an entry that changes no record: that an operator was shown one, or was
		// refused. The store takes c's ID, which may be zero, Tag, Attempt and Note, and stamps At;
		// From and To are zero. The entry is as durable as a write, and part of the transaction if
		// the store is bound to one. After an error it may be stored or not.
		Append(ctx context.Context, c Change) error
	}
	// Forgetter is a [Historian] that removes what is too old, and names that have to be forgotten.
	// A walk through pages that is under way meanwhile neither misses nor repeats an entry that
	// stays. Both calls may be made from several processes at once, and are as durable as a write.
	// After an error a part may be done. Another call goes on with the rest.
	Forgetter interface {
		// Trim removes up to limit entries that are at least as old as age by the store's clock,
		// about the oldest first. It returns how many it removed; fewer than limit means that it
		// found no more. It may stop at an entry that is younger, although older ones follow, such
		// as after a clock that was set back.
		Trim(ctx context.Context, age time.Duration, limit int) (n int, err error)
		// Erase makes what [Change.Erased] leaves of up to q.Bound() entries that q selects. Their
		// places stay as they are. q has an ID, a Tag or a Scope, and its cursor is not heeded. It
		// returns how many it erased; fewer than q.Bound() means that it found no more. There may
		// be no index for this: a call may read the whole history.
		Erase(ctx context.Context, q HistoryQuery) (n int, err error)
	}
	// Reaper removes many records whose time is over, at a fraction of the cost of removing each by
	// itself: those that are due and Completed without Rules.KeepExpired, Retryable, or Expired. It
	// removes up to limit of them, about the oldest first. It never touches others, nor a record
	// that is changed in that instant. It returns how many it removed; fewer than limit means that
	// it found no more. Several calls may run at once. It goes by state and instant alone: a record
	// that is damaged elsewhere is removed with the others when its time is over.
	Reaper interface {
		Reap(ctx context.Context, limit int) (n int, err error)
	}
	// Binder joins transactions of its callers.
	Binder interface {
		// Bind returns the store within tx: what its methods do is part of tx, and happens if and
		// when the caller commits. A method that fails may have made tx unusable. tx is of a type
		// that the store documents, such as [*database/sql.Tx]; any other is [ErrForeignTx]. The
		// bound store is for one goroutine, until tx ends. It writes nothing where the database, or
		// a statement of the caller's, has ended tx since Bind: the error is [ErrTxEnded].
		Bind(tx any) (Store, error)
	}
	// Undoer is an ability of the stores that a [Binder] returns.
	Undoer interface {
		// Undoable returns nil if a rollback undoes all that was sent since Bind, and has undone part
		// of it by then: the caller has to roll back. The error is [ErrTxEnded] where the transaction
		// is another one, unless cause is the database's own error which says that it has undone the
		// transaction; after any other error nothing is known.
		Undoable(ctx context.Context, cause error) error
	}
	// Checker looks again at what the store's durability rests on and others can change while it is
	// open: the settings of its server, or of each of its servers. An error that is [ErrVolatile]
	// says which of them loses records; any other error, that the settings could not be read. A
	// store that was opened so that it accepts such a server returns nil instead of [ErrVolatile].
	// Check is cheap enough for once a minute, heeds ctx, and writes nothing.
	Checker interface {
		Check(ctx context.Context) error
	}
	// Heir knows what its predecessors have left. Left returns the heads of the records that were
	// running, and not suspended, when the store was opened, if it was proven at that moment that
	// no other store and no other program had it open: the holders of these versions are gone, and
	// cannot write any more. It returns nil where that could not be proven.
	Heir interface {
		Left() []Head
	}
	// Identified is a store with a name of its own, other than its address: a database that was
	// restored from a backup, emptied, or exchanged for another is not the store that it was, and
	// knows nothing of keys that are in use. From the moment at which the store is seen to be
	// another one than it was, writes are [ErrForeign], and store nothing; what it has can be read.
	// It is seen with the write itself where the server can tell, and otherwise within a second.
	Identified interface {
		// Identity reads which store it is. known is the one that it has to be. The error is
		// [ErrForeign] where the two differ, with both; with any other error, nothing was read.
		Identity(ctx context.Context) (now, known Identity, err error)
		// Know has the store be known, which was seen earlier or is expected by its ID alone, in
		// place of the one that was found when it was opened.
		Know(known Identity)
		// Accept takes the store as it is now. It gives it a new ID, which replaces its own and the
		// known one, so that all who know one of these go on by themselves. Keys that were lost
		// with the difference are new keys from then on, and their effects may happen twice.
		Accept(ctx context.Context) (Identity, error)
	}
	// Sizer tells the most that the store takes, by its own rules and by the settings of its server
	// as they were when it was opened. A write of more may be [ErrRefused].
	Sizer interface {
		Sizes() Sizes
	}
)

// Sizes are bytes that a store takes at least. 0 means that it knows no bound.
type Sizes struct {
	Scope, Key int
	Names      int   // of scope and key together
	Body       int64 // of a [Body], with its response's header, beside a head of 64 KiB
	// Setting is what bounds Body and can be raised, such as a setting of the server; "" if there
	// is none.
	Setting string
}

// Identity says which store it is, and how far it has come.
type Identity struct {
	// ID was made at random with the store. A copy of the store has it as well.
	ID string
	// Mark only rises: a store's users raise it about once a second while they write. A store that
	// was set back, as by a restored backup, has a lower mark than was seen before.
	Mark int64
	// Trail has eight random characters for each of the last marks, the latest first: two stores
	// that have gone on from one copy reach the same mark by other trails.
	Trail string
	// Made is when the store got its ID.
	Made time.Time
	// Replaces are the IDs of the stores that this one was accepted for, the latest first.
	Replaces []string
}

// Change is an entry of the history: a write that had a [Note], or what [Historian].Append was
// given.
type Change struct {
	ID       ID
	Tag      string // of the record, as the engine that wrote the entry shows it; "" where it is about none
	From, To State  // zero where no record was changed
	Attempt  int
	At       time.Time // by the store's clock
	Note     Note
}

// WhyErased is the Why of the note of an entry that was erased.
const WhyErased = "erased"

// Erased returns what is left of c once it does not say any more whom it is about: when, by whom
// and what was done, the states and the attempt. The tag goes with the names: it is the same in
// every entry about one key, and who knows the pepper can tell from it which key that is. So do
// the texts of the note, which may quote them; Why is [WhyErased].
func (c Change) Erased() Change {
	c.ID, c.Tag = ID{}, ""
	c.Note = Note{Who: c.Note.Who, Action: c.Note.Action, Why: WhyErased}
	return c
}

// HistoryQuery selects changes. A zero field selects all.
type HistoryQuery struct {
	ID    ID     // both parts, or neither
	Tag   string // exact, as Scope and Who are
	Scope Scope
	Who   string // of the note
	After string // the cursor of the page before
	Limit int    // 0 means [DefaultLimit]; at most [MaxLimit]
}

// Matches reports whether the query selects c. A store that filters in its own language gives the
// same answer.
func (q *HistoryQuery) Matches(c *Change) bool {
	return (q.ID == ID{} || q.ID == c.ID) && (q.Tag == "" || q.Tag == c.Tag) &&
		(q.Scope == "" || q.Scope == c.ID.Scope) && (q.Who == "" || q.Who == c.Note.Who)
}

// Erasable returns an error if q does not say whose entries are to be erased.
func (q *HistoryQuery) Erasable() error {
	if q.ID == (ID{}) && q.Tag == "" && q.Scope == "" {
		return errors.New("stet: name whose entries are to be erased: an ID, a Tag or a Scope")
	}
	return nil
}

// Bound is how many changes a page of the query holds at most.
func (q *HistoryQuery) Bound() int { return (&Query{Limit: q.Limit}).Bound() }

// The errors of stores. After any other error the call may have had its effect or not.
var (
	// ErrExists is returned by Create when there is a record with this ID.
	ErrExists = errors.New("stet: a record with this ID exists")
	// ErrStale is returned when the record has another version than the caller's.
	ErrStale = errors.New("stet: the record has another version")
	// ErrNotFound is returned when there is no record with this ID.
	ErrNotFound = errors.New("stet: no record with this ID")
	// ErrCorrupt is returned when the record of this key cannot be read. Nothing was changed.
	ErrCorrupt = errors.New("stet: the record cannot be read")
	// ErrFull is returned when the store has no room for a new record. Nothing was stored.
	ErrFull = errors.New("stet: the store has no room for new records")
	// ErrRefused is returned when the store can never take this record with these bytes, such as
	// one that is larger than its server allows. Nothing was stored, and the same write would fail
	// so again.
	ErrRefused = errors.New("stet: the store cannot take a record with these bytes")
	// ErrBusy is returned when the store does not take this write now, as it has too much to do.
	// Nothing was stored, and the same write may succeed a moment later.
	ErrBusy = errors.New("stet: the store has too much to do")
	// ErrForeign is returned when the store is not the one that it was, or that it has to be: see
	// [Identified]. Nothing was stored.
	ErrForeign = errors.New("stet: this is not the store that it was")
	// ErrUnconfirmed is returned when the write may have happened, but fewer replicas of the server
	// have confirmed it than are required. The same write fails so again until they have it.
	ErrUnconfirmed = errors.New("stet: the write is not confirmed by enough replicas")
	// ErrVolatile is returned when the settings of the store's server let it lose records that it
	// has acknowledged: see [Checker].
	ErrVolatile = errors.New("stet: the store may lose what it acknowledged")
	// ErrForeignTx is returned when the store cannot join a transaction of this type. Nothing was
	// done.
	ErrForeignTx = errors.New("stet: the store cannot join a transaction of this kind")
	// ErrTxEnded is returned when the transaction of a [Binder] has ended before the caller ended
	// it: by the database, such as for the victim of a deadlock in MySQL, or by a statement of the
	// caller's. What was sent since may have happened by itself. Nothing was stored.
	ErrTxEnded = errors.New("stet: the transaction has ended before its end, and what was sent since may have happened by itself")
)

// ErrUnsupported is returned when the store lacks the ability that a call needs, such as [Lister].
// The text names the ability.
var ErrUnsupported = errors.New("stet: the store does not support this")

var (
	errNoList    = fmt.Errorf("%w: it cannot list its records", ErrUnsupported)
	errNoCount   = fmt.Errorf("%w: it cannot count its records", ErrUnsupported)
	errNoFind    = fmt.Errorf("%w: it cannot find records by their downstream names", ErrUnsupported)
	errNoHistory = fmt.Errorf("%w: it keeps no history of changes", ErrUnsupported)
	errNoForget  = fmt.Errorf("%w: it cannot shorten its history", ErrUnsupported)
)

// As finds an ability of s or of the store that it wraps. A wrapper has a method Unwrap() Store. A
// wrapper that must not be bypassed has the ability itself, and so is found first.
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
