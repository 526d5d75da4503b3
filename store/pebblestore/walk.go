package pebblestore

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stet-dev/stet"
)

// place is where an entry of an index by time or by number stands: those of all classes are in one
// order, by number, then by class, then by what follows.
type place struct {
	at    uint64
	class class
	rest  string
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.at, o.at), cmp.Compare(p.class, o.class), cmp.Compare(p.rest, o.rest))
}

// cursor and parseCursor write a place for callers, and read it.
func (p place) cursor() string { return string(append(number(nil, p.at), byte(p.class))) + p.rest }

func parseCursor(s string) (p *place, err error) {
	if s == "" {
		return nil, nil
	}
	b, err := decodeCursor(s)
	if err != nil || len(b) < 9 {
		return nil, fmt.Errorf("%q is no cursor", s)
	}
	return &place{binary.BigEndian.Uint64(b), class(b[8]), string(b[9:])}, nil
}

func encodeCursor(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func decodeCursor(s string) ([]byte, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		err = fmt.Errorf("%q is no cursor", s)
	}
	return b, err
}

// index is a walk through the entries of several classes at once, in the order of their places.
type index struct {
	kind    byte
	classes []class
	from    *place // behind this one
	until   uint64 // no number above it
	back    bool   // the latest first
}

// behind returns the first key of class c at or behind the place that the walk comes from. In a
// list, a number is one record's: it is done, in whatever class it is meanwhile.
func (x *index) behind(c class) []byte {
	key := []byte{x.kind, byte(c)}
	switch p := x.from; {
	case x.kind == listKey && x.back:
		return number(key, p.at)
	case x.kind == listKey:
		return number(key, p.at+1)
	case c < p.class:
		return number(key, p.at+1)
	case c > p.class:
		return number(key, p.at)
	default:
		key = append(number(key, p.at), p.rest...)
		if !x.back {
			key = append(key, 0) // itself is done
		}
		return key
	}
}

func (x *index) bounds(c class) *pebble.IterOptions {
	o := within([]byte{x.kind, byte(c)})
	if x.until < math.MaxUint64 {
		o.UpperBound = number([]byte{x.kind, byte(c)}, x.until+1)
	}
	switch {
	case x.from != nil && x.back:
		o.UpperBound = x.behind(c)
	case x.from != nil:
		o.LowerBound = x.behind(c)
	}
	return o
}

// source is the walk through one class.
type source struct {
	*pebble.Iterator
	class class
	next  func() bool
	at    place
	more  bool
}

// settle finds the place of the entry that was found. One that has no place is left out.
func (s *source) settle(found bool) {
	for ; found; found = s.next() {
		if suffix := s.Key()[2:]; len(suffix) >= 8 {
			s.at, s.more = place{binary.BigEndian.Uint64(suffix), s.class, string(suffix[8:])}, true
			return
		}
	}
	s.more = false
}

// ended closes an iterator, and returns the error with which it ended.
func ended(it *pebble.Iterator) error { return corrupt(cmp.Or(it.Error(), it.Close())) }

// each visits the entries until visit returns false.
func (x *index) each(from reader, visit func(at place, value []byte) (bool, error)) (err error) {
	var sources []*source
	defer func() {
		for _, s := range sources {
			err = errors.Join(err, ended(s.Iterator))
		}
	}()
	for _, c := range x.classes {
		it, err := from.NewIter(x.bounds(c))
		if err != nil {
			return corrupt(err)
		}
		s := &source{Iterator: it, class: c, next: it.Next}
		sources = append(sources, s)
		first := it.First
		if x.back {
			first, s.next = it.Last, it.Prev
		}
		s.settle(first())
	}
	for {
		var next *source
		for _, s := range sources {
			if s.more && (next == nil || s.at.compare(next.at) < 0 != x.back) {
				next = s
			}
		}
		if next == nil {
			return nil
		}
		if more, err := visit(next.at, next.Value()); err != nil || !more {
			return err
		}
		next.settle(next.next())
	}
}

// eachKey visits the keys that begin with prefix, behind one that goes on with after, until visit
// returns false. It gets what follows the prefix.
func eachKey(from reader, prefix []byte, after string, back bool, visit func(rest string) (bool, error)) (err error) {
	o := within(prefix)
	if after != "" {
		at := append(append([]byte(nil), prefix...), after...)
		if back {
			o.UpperBound = at
		} else {
			o.LowerBound = append(at, 0)
		}
	}
	it, err := from.NewIter(o)
	if err != nil {
		return corrupt(err)
	}
	defer func() { err = errors.Join(err, ended(it)) }()
	first, next := it.First, it.Next
	if back {
		first, next = it.Last, it.Prev
	}
	for found := first(); found; found = next() {
		if more, err := visit(string(it.Key()[len(prefix):])); err != nil || !more {
			return err
		}
	}
	return nil
}

// unreadable reports whether an error is of one record: a walk goes on without it.
func unreadable(err error) bool {
	return errors.Is(err, stet.ErrCorrupt) || errors.Is(err, stet.ErrNotFound)
}
