// Package tablestore has what the stores in SQL databases have in common, beside the text of their
// statements (package sqltext) and the groups of their writes (package groupcommit).
package tablestore

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/sqltext"
)

// Reaped are the states of records that are removed when they are due.
var Reaped = [...]stet.State{stet.Completed, stet.Retryable, stet.Expired}

// Verb is what a [Write] does.
type Verb uint8

// The verbs that change a record. A store may have more of its own.
const (
	Create Verb = iota + 1
	ReplaceHead
	ReplaceAll // the body, too
	Remove
	FirstOwn // the first verb of a store's own
)

// Write is one write of a record, and what became of it. A store embeds it in its own type.
type Write struct {
	groupcommit.Call
	Verb Verb
	Head stet.Head    // Remove: the ID alone
	Prev stet.Version // the version that is replaced or removed

	Got  stet.Head   // as stored; of the record that is there with [stet.ErrStale]
	Have stet.Record // the record that is there with [stet.ErrExists]
}

// Replacing returns the verb of a Replace with a body, or without one.
func Replacing(b *stet.Body) Verb {
	if b == nil {
		return ReplaceHead
	}
	return ReplaceAll
}

// Compare orders writes by the names of their records.
func Compare(a, b *Write) int {
	return cmp.Or(cmp.Compare(a.Head.Scope, b.Head.Scope), cmp.Compare(a.Head.Key, b.Head.Key))
}

// Size is how many bytes a body has. It may be nil.
func Size(b *stet.Body) int {
	if b == nil {
		return 0
	}
	n := len(b.Request) + len(b.Progress)
	if b.Response != nil {
		n += len(b.Response.Body)
	}
	return n
}

// Done notes that the record is stored, at an instant in microseconds since 1970.
func (w *Write) Done(at int64) {
	stamp := sqltext.Changed
	if w.Verb == Create {
		stamp = sqltext.Born
	}
	s := stamp(&w.Head, at)
	w.Stamped(&s)
}

// Stamped notes that the record is stored, with the instants of s.
func (w *Write) Stamped(s *sqltext.Stamp) {
	w.Got = w.Head
	s.Apply(&w.Got)
}

// Created is what Create returns of r, after w ended with err.
func (w *Write) Created(r *stet.Record, err error) (stet.Record, error) {
	switch {
	case err == nil:
		return stet.Record{Head: w.Got, Body: r.Body}, nil
	case errors.Is(err, stet.ErrExists):
		return w.Have, err
	}
	return stet.Record{}, err
}

// Replaced is what Replace returns, after w ended with err.
func (w *Write) Replaced(err error) (stet.Head, error) {
	if err == nil || errors.Is(err, stet.ErrStale) {
		return w.Got, err
	}
	return stet.Head{}, err
}

// Wrap names the package and the operation of an error that is not one of the plain answers.
func Wrap(pkg, op string, err error) error {
	switch err {
	case nil, stet.ErrExists, stet.ErrStale, stet.ErrNotFound:
		return err
	}
	return fmt.Errorf("%s: %s: %w", pkg, op, err)
}
