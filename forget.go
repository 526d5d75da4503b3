package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ErrQuoted is returned by [Operator.Erase] for a [Note] that quotes what is to be erased.
var ErrQuoted = errors.New("stet: the reason quotes the scope, key or id whose entries are to be erased, and stays in the history: " +
	"give one that does not, such as the number of the request")

// forgetTime is how long one call of the store may take that trims or erases: it may have to read
// or copy the whole history. No request waits for it, except for changes with a [Note] on a store
// whose history is a file.
const forgetTime = time.Minute

// maxTrim is how many entries [Operator.Trim] removes at most in one call.
const maxTrim = 10_000

// Trim removes up to limit entries of the history that are at least as old as age, about the oldest
// first: see [Forgetter]. 0 means [DefaultLimit], and 10,000 is the most. It returns how many it
// removed; fewer than limit means that there are no more. One event tells of all of them: Trimmed.
// The end of ctx does not interrupt it. The error is [ErrUnsupported] if the store cannot do it.
func (o *Operator) Trim(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	if age <= 0 {
		return 0, fmt.Errorf("stet: Trim: the age is %v; it has to be above 0", age)
	}
	err = o.e.forget(ctx, "trim", func(ctx context.Context, f Forgetter) (err error) {
		n, err = f.Trim(ctx, age, min(cmp.Or(max(limit, 0), DefaultLimit), maxTrim))
		return err
	})
	if n > 0 {
		o.e.Observe(Event{Kind: Trimmed, Count: n})
	}
	return n, err
}

// actionErase is the Action of the two entries of an erasure.
const actionErase = "erase"

// Erase takes out of the history whom its entries are about: of the entries that q selects it
// leaves what [Change.Erased] says. q has an ID, a Tag or a Scope. It returns how many it erased.
//
// It adds two entries that name no record: one before, without which nothing is erased, and one
// with the number of entries after, whether or not there was an error. n has Who and Why. Its text
// stays: if it quotes the scope, key or tag of q, the error is [ErrQuoted] and nothing is erased.
//
// Records, and what they say of themselves, stay: delete them first, since that adds entries. The
// end of ctx ends it between two batches. A call with the same query goes on. The error is
// [ErrUnsupported] if the store cannot do it.
func (o *Operator) Erase(ctx context.Context, q HistoryQuery, n Note) (erased int, err error) {
	switch {
	case blank(n.Who) || blank(n.Why):
		return 0, ErrNoReason
	case q.Erasable() != nil:
		return 0, q.Erasable()
	case quotes(&n, string(q.Scope), string(q.ID.Scope), string(q.ID.Key), q.Tag):
		return 0, ErrQuoted
	}
	if _, ok := As[Forgetter](o.e.store); !ok {
		return 0, errNoForget
	}
	n.Action = actionErase
	if err := o.Audit(ctx, ID{}, n); err != nil {
		return 0, err
	}
	q.After, q.Limit = "", MaxLimit
	for more := true; more && err == nil; {
		var some int
		err = o.e.forget(ctx, "erase", func(ctx context.Context, f Forgetter) (err error) {
			some, err = f.Erase(ctx, q)
			return err
		})
		if erased, more = erased+some, some == MaxLimit; more {
			err = cmp.Or(err, ctx.Err())
		}
	}
	n.Evidence = fmt.Sprintf("entries: %d", erased)
	return erased, errors.Join(err, o.Audit(ctx, ID{}, n))
}

func (e *Engine) forget(ctx context.Context, op string, do func(context.Context, Forgetter) error) error {
	f, ok := As[Forgetter](e.store)
	if !ok {
		return errNoForget
	}
	call := detach(ctx, forgetTime)
	defer call.release()
	return e.observed(op, func() error { return do(call, f) })
}

// quotes reports whether what the note says has one of the names in it, as a word of its own.
func quotes(n *Note, names ...string) bool {
	part := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for _, text := range []string{n.Why, n.Evidence} {
		for _, name := range names {
			for rest := text; name != ""; {
				before, after, found := strings.Cut(rest, name)
				if !found {
					break
				}
				last, _ := utf8.DecodeLastRuneInString(before)
				next, _ := utf8.DecodeRuneInString(after)
				if !part(last) && !part(next) {
					return true
				}
				rest = after
			}
		}
	}
	return false
}
