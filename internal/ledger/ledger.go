// Package ledger counts the bytes that are held in memory, in total and by whose they are, and says
// no before they are too many.
package ledger

import (
	"hash/maphash"
	"sync/atomic"
)

// Small is how large something may be, in bytes, to be small: the reserve of a [Ledger] is for that
// alone.
const Small = 16 << 10

// Ledger bounds what is held at a time. It is safe for concurrent use, takes no lock and makes no
// entries: its own size is fixed.
//
// No owner gets all of it. An owner may hold a share. A reserve is for what is small, of the whole
// and of each owner's share, so that stalled uploads do not keep others from asking a short
// question. Where no more than the reserve is left, an owner may hold its share of what the others
// leave, and no longer of the whole: who holds much already is refused first, and there is always
// something for the next one.
type Ledger struct {
	bounds atomic.Pointer[bounds]
	total  atomic.Int64
	seed   maphash.Seed
	// Every owner is counted in two places, which it may share with others: it holds at most the
	// lesser of the two. So what an owner holds is never taken for less than it is, and for more
	// only where others' bytes are in both places.
	accounts [2][places]atomic.Int64
}

const places = 2048

type bounds struct {
	whole, open  int64 // in total; open to what is not small
	own, ownOpen int64 // of one owner
	share        float64
}

// New returns a ledger of whole bytes, of which reserve are for what is small, and where one owner
// may hold a share, from 0 to 1.
func New(whole, reserve int64, share float64) *Ledger {
	l := &Ledger{seed: maphash.MakeSeed()}
	l.Set(whole, reserve, share)
	return l
}

// Set gives the ledger other bounds. What is held stays held; where that is too much by now,
// nothing more is until enough was given back.
func (l *Ledger) Set(whole, reserve int64, share float64) {
	b := &bounds{whole: whole, open: whole - reserve, share: share}
	b.own, b.ownOpen = b.shareOf(b.whole), b.shareOf(b.open)
	l.bounds.Store(b)
}

func (b *bounds) shareOf(n int64) int64 { return int64(b.share * float64(n)) }

// Held returns how many bytes are held at the moment. It is never more than the whole, but for what
// [Ledger.Set] found held.
func (l *Ledger) Held() int64 { return l.total.Load() }

// Owner is whose bytes are counted.
type Owner struct{ a, b uint16 }

// Owner returns the owner of a name.
func (l *Ledger) Owner(name string) Owner {
	sum := maphash.String(l.seed, name)
	return Owner{uint16(sum % places), uint16(sum >> 32 % places)}
}

// take counts n bytes more of an owner, or reports that there is no room for them.
func (l *Ledger) take(o Owner, n int64, small bool) bool {
	b := l.bounds.Load()
	limit, own := b.open, b.ownOpen
	if small {
		limit, own = b.whole, b.own
	}
	total, ok := l.add(n, limit)
	if !ok {
		return false
	}
	has := min(l.accounts[0][o.a].Add(n), l.accounts[1][o.b].Add(n))
	if total > b.open {
		own = b.shareOf(b.whole - (total - has))
	}
	if has > own {
		l.give(o, n)
		return false
	}
	return true
}

// add counts n bytes more in total, but never beyond the limit, not for a moment.
func (l *Ledger) add(n, limit int64) (total int64, ok bool) {
	for {
		was := l.total.Load()
		if n > limit-was {
			return was, false
		}
		if l.total.CompareAndSwap(was, was+n) {
			return was + n, true
		}
	}
}

func (l *Ledger) give(o Owner, n int64) {
	l.accounts[0][o.a].Add(-n)
	l.accounts[1][o.b].Add(-n)
	l.total.Add(-n)
}

// Hold is what one owner holds for one purpose. It is not safe for concurrent use.
type Hold struct {
	ledger *Ledger
	owner  Owner
	n      int64
}

// Hold returns a hold of nothing.
func (l *Ledger) Hold(o Owner) Hold { return Hold{ledger: l, owner: o} }

// Raise lets the hold be of n bytes, where it is of less. It reports false, and changes nothing,
// where there is no room.
func (h *Hold) Raise(n int64, small bool) bool {
	if n > h.n {
		if !h.ledger.take(h.owner, n-h.n, small) {
			return false
		}
		h.n = n
	}
	return true
}

// Free ends the hold. Again it does nothing.
func (h *Hold) Free() {
	if h.n > 0 {
		h.ledger.give(h.owner, h.n)
		h.n = 0
	}
}
