// Package compare lays two ledgers side by side: what a service has booked, and what its provider
// did. [Books] yields where they do not agree.
package compare

import (
	"errors"
	"fmt"
	"iter"

	"github.com/stet-dev/stet/internal/names"
)

// Entry is one effect as one side's books have it: a payment, a refund.
type Entry struct {
	// ID is what both sides know the effect by: the downstream key it was sent with, or the
	// provider's own id.
	ID string
	// Amount in the smallest unit of Currency; what has none leaves both zero.
	Amount   int64
	Currency string
}

// Difference is where two ledgers do not agree. Ledger or Provider is nil where that side has no
// such entry.
type Difference struct {
	Kind     DifferenceKind
	Ledger   *Entry
	Provider *Entry
}

// DifferenceKind is what is wrong.
type DifferenceKind uint8

const (
	LedgerOnly      DifferenceKind = iota + 1 // booked here, but not known to the provider
	ProviderOnly                              // done by the provider, but not booked here: this one costs customers money
	Differs                                   // both have it, with another amount or currency
	TwiceInLedger                             // booked here once more; Ledger is the entry beyond the first
	TwiceByProvider                           // done once more; Provider is the entry beyond the first
)

var differenceNames = [...]string{LedgerOnly: "ledger only", ProviderOnly: "provider only", Differs: "differs",
	TwiceInLedger: "twice in the ledger", TwiceByProvider: "twice by the provider"}

func (k DifferenceKind) String() string { return names.Of("DifferenceKind", differenceNames[:], k) }

// ErrUnordered is returned when a side of [Books] is not in the order of its IDs.
var ErrUnordered = errors.New("compare: entries are not in the order of their IDs")

// Books yields where the provider's books and the own ones do not agree, in the order of IDs. Both
// sides have to come in that order, byte by byte (in SQL: ORDER BY id COLLATE "C" on Postgres,
// COLLATE utf8mb4_bin on MariaDB; SQLite's own), and be of the same period: leave out what is so
// recent that one side may not have booked it yet. Either side may have an ID several times; the
// first is compared, and each one beyond it reported by itself.
//
// It reads both sides once, in step, and holds one entry of each: they may be of any length. An
// error that a side yields, or [ErrUnordered], ends the comparison; it is yielded last, with the
// side's name and no entry: what follows was not compared, and of a side without order what came
// before may be wrong, too. Breaking off early stops both sides. It is for one goroutine, and can
// be ranged over as often as both sides can.
func Books(ledger, provider iter.Seq2[Entry, error]) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		l := newSide("ledger", ledger)
		defer l.stop()
		p := newSide("provider", provider)
		defer p.stop()
		l.next()
		p.next()
		for l.err == nil && p.err == nil && (l.there || p.there) {
			d := step(l, p)
			if d.Kind != 0 && !yield(d, nil) {
				return
			}
		}
		if err := errors.Join(l.err, p.err); err != nil {
			yield(Difference{}, err)
		}
	}
}

// step moves past the smallest entry, and returns what is wrong with it; nothing has no Kind.
func step(l, p *side) (d Difference) {
	switch {
	case l.there && l.again:
		d = Difference{Kind: TwiceInLedger, Ledger: new(l.entry)}
		l.next()
	case p.there && p.again:
		d = Difference{Kind: TwiceByProvider, Provider: new(p.entry)}
		p.next()
	case !p.there || l.there && l.entry.ID < p.entry.ID:
		d = Difference{Kind: LedgerOnly, Ledger: new(l.entry)}
		l.next()
	case !l.there || p.entry.ID < l.entry.ID:
		d = Difference{Kind: ProviderOnly, Provider: new(p.entry)}
		p.next()
	default:
		if l.entry != p.entry {
			d = Difference{Kind: Differs, Ledger: new(l.entry), Provider: new(p.entry)}
		}
		l.next()
		p.next()
	}
	return d
}

// side is one of two sorted streams, at its current entry.
type side struct {
	name  string
	pull  func() (Entry, error, bool)
	stop  func()
	entry Entry
	there bool  // there is an entry
	again bool  // it has the ID of the one before
	begun bool  // there was one before
	err   error // nothing can be said of what follows
}

func newSide(name string, entries iter.Seq2[Entry, error]) *side {
	s := &side{name: name}
	s.pull, s.stop = iter.Pull2(entries)
	return s
}

func (s *side) next() {
	before := s.entry.ID
	var err error
	s.entry, err, s.there = s.pull()
	switch {
	case !s.there:
	case err != nil:
		s.err = fmt.Errorf("compare: the %s's entries: %w", s.name, err)
	case s.begun && s.entry.ID < before:
		s.err = fmt.Errorf("%w: the %s's %q comes after %q", ErrUnordered, s.name, s.entry.ID, before)
	}
	s.again, s.begun = s.begun && s.entry.ID == before, true
}
