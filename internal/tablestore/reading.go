package tablestore

import (
	"context"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// around makes a call of a store, named op, and returns its error as the store tells it. It may
// give the call another context than ctx.
type around func(ctx context.Context, op string, call func(ctx context.Context) error) error

// Reading are the abilities that a store also has within a caller's transaction.
type Reading struct {
	Reader *sqltext.Reader
	Around around
}

// Due pages through the Heads whose DueAt has passed, earliest first, and in the order of their
// rows where that is the same instant. Records that cannot be read are left out. The cursor holds
// nothing of keys.
func (r *Reading) Due(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	err = r.Around(ctx, "due", func(ctx context.Context) (err error) { heads, next, err = r.Reader.Due(ctx, q); return err })
	return heads, next, err
}

// History pages through the changes that had a note and what was appended, newest first. A row that
// cannot be read is [stet.ErrCorrupt]: a history with holes in it is no evidence.
func (r *Reading) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	err = r.Around(ctx, "history", func(ctx context.Context) (err error) {
		changes, next, err = r.Reader.History(ctx, q)
		return err
	})
	return changes, next, err
}

// Listing are the abilities of a store that select records.
type Listing struct{ Reading }

// List pages through records, newest first. Records that cannot be read are left out. The cursor
// holds nothing of keys.
func (l *Listing) List(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	err = l.Around(ctx, "list", func(ctx context.Context) (err error) { heads, next, err = l.Reader.List(ctx, q); return err })
	return heads, next, err
}

// Count counts records, and stops at q.Limit, which may be above [stet.MaxLimit] here.
func (l *Listing) Count(ctx context.Context, q stet.Query) (n int, err error) {
	err = l.Around(ctx, "count", func(ctx context.Context) (err error) { n, err = l.Reader.Count(ctx, q); return err })
	return n, err
}

// Find returns the records of a scope that have a downstream name, the newest first. Records that
// cannot be read are left out.
func (l *Listing) Find(ctx context.Context, scope stet.Scope, name string) (heads []stet.Head, err error) {
	err = l.Around(ctx, "find", func(ctx context.Context) (err error) { heads, err = l.Reader.Find(ctx, scope, name); return err })
	return heads, err
}
