package sqltext

import (
	"context"
	"slices"

	"github.com/stet-dev/stet"
)

// Look is how many rows a page of a list reads at most if no index serves its filter. A page that
// has found too little by then is short, and its cursor says where the next one begins.
const Look = 10_000

// indexed returns the parts of q that an index serves, each as a query of its own, the one that
// probably selects the least first. A list uses the first part that selects no more than [Look]
// rows, and the order of the rows if there is none.
func indexed(q *stet.Query) (parts []stet.Query) {
	states := q.States
	if q.Escalated && len(states) == 0 {
		states = []stet.State{stet.Unknown}
	}
	if q.Tag != "" {
		parts = append(parts, stet.Query{Tag: q.Tag})
	}
	if q.Scope != "" && q.Key != "" {
		parts = append(parts, stet.Query{Scope: q.Scope, Key: q.Key})
	}
	if q.Failed {
		parts = append(parts, stet.Query{Failed: true})
	}
	if len(states) > 0 && !slices.Contains(states, stet.Completed) { // which nearly all are
		parts = append(parts, stet.Query{States: states})
	}
	if q.Scope != "" {
		parts = append(parts, stet.Query{Scope: q.Scope})
	}
	return parts
}

// leading returns the part of q whose index a list uses, or nil.
func (r *Reader) leading(ctx context.Context, q *stet.Query) (*stet.Query, error) {
	for _, part := range indexed(q) {
		part.Limit = Look + 1
		if n, err := r.Count(ctx, part); err != nil || n <= Look {
			return &part, err
		}
	}
	return nil, nil
}

// sifts reports whether a list of q passes over rows.
func sifts(q *stet.Query) bool { return len(q.States) > 0 || !q.ByState() }

// direction returns how a row that comes later in a list compares with one before it, how those up
// to a row compare with it, and the order to ask for.
func direction(q *stet.Query) (later, upTo, order string) {
	if q.Oldest {
		return ">", "<=", "ASC"
	}
	return "<", ">=", "DESC"
}
