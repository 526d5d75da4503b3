// Package ability builds wrappers of stores.
//
// A Go type has a method or does not have it, but the abilities of a wrapper depend on the store
// that it wraps. A wrapper therefore implements [All] abilities on a type of its own, and
// [Set.Chain] shows those of them that the wrapped store has. A new ability is a new method of All,
// so that the compiler names every wrapper that does not forward it yet.
//
// Most wrappers do the same thing around each call. [Wrap] builds such a wrapper from one function,
// an [Around].
package ability

import (
	"context"
	"io"

	"github.com/stet-dev/stet"
)

// All is everything that a store can do besides its verbs.
type All interface {
	stet.Waiter
	stet.Lister
	stet.Counter
	stet.Finder
	stet.Historian
	stet.Forgetter
	stet.Reaper
	stet.Binder
	stet.Undoer
	stet.Checker
	stet.Sizer
	stet.Heir
	stet.Identified
	LogSizer
}

// LogSizer reports how many bytes the log of a store in a file takes. It is [sqlstore.LogSizer].
//
// [sqlstore.LogSizer]: https://pkg.go.dev/github.com/stet-dev/stet/store/sqlstore#LogSizer
type LogSizer interface{ LogSize() (int64, error) }

// Announcer is a store of several processes that tells each of them which completed records any of
// them changes or deletes. A cache asks for it through the wrappers between the two, such as a
// circuit breaker. None of them forwards it, because no call of theirs is concerned.
type Announcer interface {
	// Follow calls heard with the Hash of each such record until ctx ends or its connection does,
	// and returns the reason. It calls ready when it begins to hear, and again if it may have
	// missed something. It may call heard once too often.
	Follow(ctx context.Context, ready func(), heard func(hash uint32)) error
	// Hash is what announcements call a record.
	Hash(id stet.ID) uint32
}

// Set is what one store can do: a nil field is an ability that it does not have. Calling a method
// of a nil field panics.
type Set struct {
	stet.Waiter
	stet.Lister
	stet.Counter
	stet.Finder
	stet.Historian
	stet.Forgetter
	stet.Reaper
	stet.Binder
	stet.Undoer
	stet.Checker
	stet.Sizer
	stet.Heir
	stet.Identified
	LogSizer
}

var _ All = Set{}

// Of returns the abilities that [stet.As] finds on s.
func Of(s stet.Store) (has Set) {
	has.Waiter, _ = stet.As[stet.Waiter](s)
	has.Lister, _ = stet.As[stet.Lister](s)
	has.Counter, _ = stet.As[stet.Counter](s)
	has.Finder, _ = stet.As[stet.Finder](s)
	has.Historian, _ = stet.As[stet.Historian](s)
	has.Forgetter, _ = stet.As[stet.Forgetter](s)
	has.Reaper, _ = stet.As[stet.Reaper](s)
	has.Binder, _ = stet.As[stet.Binder](s)
	has.Undoer, _ = stet.As[stet.Undoer](s)
	has.Checker, _ = stet.As[stet.Checker](s)
	has.Sizer, _ = stet.As[stet.Sizer](s)
	has.Heir, _ = stet.As[stet.Heir](s)
	has.Identified, _ = stet.As[stet.Identified](s)
	has.LogSizer, _ = stet.As[LogSizer](s)
	return has
}

// Chain returns the store that wrapper unwraps to. On it [stet.As] finds the abilities in has, each
// as a method of as, and after them whatever it finds on end. If end is nil, it finds nothing else.
// The verbs of the result are wrapper's.
func (has Set) Chain(wrapper stet.Store, as All, end stet.Store) stet.Store {
	next := end
	for _, ability := range []struct {
		there bool
		on    func(link) stet.Store
	}{
		{has.Waiter != nil, func(l link) stet.Store { return waiter{l, as} }},
		{has.Lister != nil, func(l link) stet.Store { return lister{l, as} }},
		{has.Counter != nil, func(l link) stet.Store { return counter{l, as} }},
		{has.Finder != nil, func(l link) stet.Store { return finder{l, as} }},
		{has.Historian != nil, func(l link) stet.Store { return historian{l, as} }},
		{has.Forgetter != nil, func(l link) stet.Store { return forgetter{l, as} }},
		{has.Reaper != nil, func(l link) stet.Store { return reaper{l, as} }},
		{has.Binder != nil, func(l link) stet.Store { return binder{l, as} }},
		{has.Undoer != nil, func(l link) stet.Store { return undoer{l, as} }},
		{has.Checker != nil, func(l link) stet.Store { return checker{l, as} }},
		{has.Sizer != nil, func(l link) stet.Store { return sizer{l, as} }},
		{has.Heir != nil, func(l link) stet.Store { return heir{l, as} }},
		{has.Identified != nil, func(l link) stet.Store { return identified{l, as} }},
		{has.LogSizer != nil, func(l link) stet.Store { return logSizer{l, as} }},
	} {
		if ability.there {
			next = ability.on(link{wrapper, next})
		}
	}
	return next
}

// A link has one ability and leads to the next link.
type link struct {
	stet.Store
	next stet.Store
}

func (l link) Unwrap() stet.Store { return l.next }

type (
	waiter struct {
		link
		stet.Waiter
	}
	lister struct {
		link
		stet.Lister
	}
	counter struct {
		link
		stet.Counter
	}
	finder struct {
		link
		stet.Finder
	}
	historian struct {
		link
		stet.Historian
	}
	forgetter struct {
		link
		stet.Forgetter
	}
	reaper struct {
		link
		stet.Reaper
	}
	binder struct {
		link
		stet.Binder
	}
	undoer struct {
		link
		stet.Undoer
	}
	checker struct {
		link
		stet.Checker
	}
	sizer struct {
		link
		stet.Sizer
	}
	heir struct {
		link
		stet.Heir
	}
	identified struct {
		link
		stet.Identified
	}
	logSizer struct {
		link
		LogSizer
	}
)

// Close closes s, or the store that it wraps, if it has something to close.
func Close(s stet.Store) error {
	if c, ok := stet.As[io.Closer](s); ok {
		return c.Close()
	}
	return nil
}
