// Package ability gives wrappers the abilities of what they wrap. A type has its methods or has them not, while what a wrapper
// can do depends on the store it was given; a chain of small links has one link for each ability that is there.
package ability

import "github.com/stet-dev/stet"

// Set is what a wrapper offers. Nil: not that.
type Set struct {
	Waiter    stet.Waiter
	Lister    stet.Lister
	Counter   stet.Counter
	Finder    stet.Finder
	Historian stet.Historian
	Binder    stet.Binder
	Reaper    stet.Reaper
	Checker   stet.Checker
	LogSizer  LogSizer
}

// LogSizer says how large the log of a store in a file is: [sqlstore.LogSizer].
//
// [sqlstore.LogSizer]: https://pkg.go.dev/github.com/stet-dev/stet/store/sqlstore#LogSizer
type LogSizer interface{ LogSize() (int64, error) }

// Chain returns what s unwraps to: [stet.As] finds the abilities of the set on it, and then what end has. The verbs of each
// link are s's. A nil end lets nothing else through: what the set leaves out is then not there at all.
func (a Set) Chain(s, end stet.Store) stet.Store {
	next := end
	here := func() link { return link{s, next} }
	if a.Waiter != nil {
		next = waiter{here(), a.Waiter}
	}
	if a.Lister != nil {
		next = lister{here(), a.Lister}
	}
	if a.Counter != nil {
		next = counter{here(), a.Counter}
	}
	if a.Finder != nil {
		next = finder{here(), a.Finder}
	}
	if a.Historian != nil {
		next = historian{here(), a.Historian}
	}
	if a.Binder != nil {
		next = binder{here(), a.Binder}
	}
	if a.Reaper != nil {
		next = reaper{here(), a.Reaper}
	}
	if a.Checker != nil {
		next = checker{here(), a.Checker}
	}
	if a.LogSizer != nil {
		next = logSizer{here(), a.LogSizer}
	}
	return next
}

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
	binder struct {
		link
		stet.Binder
	}
	reaper struct {
		link
		stet.Reaper
	}
	checker struct {
		link
		stet.Checker
	}
	logSizer struct {
		link
		LogSizer
	}
)

// Close closes what s or a store it wraps has to close.
func Close(s stet.Store) error {
	if c, ok := stet.As[stet.Closer](s); ok {
		return c.Close()
	}
	return nil
}
