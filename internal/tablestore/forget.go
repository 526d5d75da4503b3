package tablestore

import (
	"context"
	"time"

	"github.com/stet-dev/stet"
)

// Forgetting are the verbs that shorten a history, each a change of some rows at a time.
type Forgetting struct {
	// Shorten removes those of the first limit rows that are old enough, and returns how many.
	Shorten func(ctx context.Context, age time.Duration, limit int) (n int, err error)
	// Clear erases up to limit rows that q selects, and returns how many.
	Clear func(ctx context.Context, q *stet.HistoryQuery, limit int) (n int, err error)
	Wrap  func(op string, err error) error
}

// maxForgotten is how many rows one statement removes or erases: writes wait no longer than that
// takes.
const maxForgotten = 250

// Trim removes up to limit entries that are at least as old as age, the first that were added
// first.
func (f *Forgetting) Trim(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	n, err = some(limit, func(most int) (int, error) { return f.Shorten(ctx, age, most) })
	return n, f.Wrap("trim", err)
}

// Erase makes what [stet.Change.Erased] leaves of up to q.Bound() entries that q selects. What was
// there may be in the database's files until their space is used again, and in its log.
func (f *Forgetting) Erase(ctx context.Context, q stet.HistoryQuery) (n int, err error) {
	if err = q.Erasable(); err == nil {
		n, err = some(q.Bound(), func(most int) (int, error) { return f.Clear(ctx, &q, most) })
	}
	return n, f.Wrap("erase", err)
}

// some has up to limit rows changed.
func some(limit int, change func(most int) (int, error)) (n int, err error) {
	for n < limit {
		most := min(limit-n, maxForgotten)
		done, err := change(most)
		if n += done; err != nil || done < most {
			return n, err
		}
	}
	return n, nil
}
