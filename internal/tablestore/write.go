// Package tablestore has what the stores in SQL databases have in common, beside the text of their
// statements (package sqltext) and the groups of their writes (package groupcommit).
package tablestore

import (
	"cmp"
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
	Body stet.Body    // see [Write.Written]
	Prev stet.Version // the version that is replaced or removed

	// Got is the head as stored; with [stet.ErrStale] the head that is there, and with
	// [stet.ErrExists] the record, without its body if that is larger than [stet.SmallBody].
	Got stet.Record
	// Seen is the record that is there as the caller of a Create saw it: Got belongs to those who
	// write, and may be changing in this instant.
	Seen *stet.Record
}

func (w *Write) write() *Write { return w }

// Written returns the body that is written, or nil if the stored one stays.
func (w *Write) Written() *stet.Body {
	if w.Verb == ReplaceHead || w.Verb == Remove {
		return nil
	}
	return &w.Body
}

// Compare orders writes by the names of their records.
func Compare(a, b *Write) int {
	return cmp.Or(cmp.Compare(a.Head.Scope, b.Head.Scope), cmp.Compare(a.Head.Key, b.Head.Key))
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
	w.Got.Head = w.Head
	s.Apply(&w.Got.Head)
}

// Wrap names the package and the operation of an error that is not one of the plain answers.
func Wrap(pkg, op string, err error) error {
	switch err {
	case nil, stet.ErrExists, stet.ErrStale, stet.ErrNotFound:
		return err
	}
	return fmt.Errorf("%s: %s: %w", pkg, op, err)
}
