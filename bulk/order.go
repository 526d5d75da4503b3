package bulk

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/stet-dev/stet"
)

// Action is what a job does with each record.
type Action string

// The actions. Each is the operator's verb for one record.
const (
	// Release says that nothing happened, so that one retry may run: see [stet.Operator.Resolve].
	Release Action = "release"
	// Delete drops the stored result and frees the key: see [stet.Operator.Purge].
	Delete Action = "delete"
	// Extend keeps the stored result for Retain from now: see [stet.Operator.Extend].
	Extend Action = "extend"
)

// Order is what a job is to do, and to which records.
type Order struct {
	// Action is what is done with each record. Required.
	Action Action
	// Query selects the records; its After and Limit are ignored. A query that selects everything
	// is refused. A Release without States selects unknown records, since no others can be
	// released.
	Query stet.Query
	// Expect is how many records match, as the caller has counted: with any other number nothing is
	// changed, and the error is a [Mismatch]. Required.
	Expect int
	// Limit is the most records to change, in the store's order; 0 means all.
	Limit int
	// Retain is how long Extend keeps results from now. Required with Extend, and refused
	// otherwise.
	Retain time.Duration
	// Settle, Now and Override are those of [stet.Resolution], for Release.
	Settle        time.Duration
	Now, Override bool
	// Note goes into the history with each change. Who and Why are required; Notice is replaced by
	// the id of the job.
	Note stet.Note
}

// OrderError says which part of an [Order] cannot be used, and why.
type OrderError struct{ Field, Reason string }

func (e *OrderError) Error() string { return "bulk: " + e.Field + ": " + e.Reason }

// Mismatch is returned when another number of records matches than the caller has counted. Nothing
// was changed.
type Mismatch struct{ Expected, Matching int }

func (e *Mismatch) Error() string {
	return fmt.Sprintf("bulk: %d records were expected to match, and %d do: nothing was changed; look again",
		e.Expected, e.Matching)
}

// ErrTooMany is returned when more than [MaxRecords] records match.
var ErrTooMany = errors.New("bulk: too many records match; narrow the query")

// MaxRecords is how many records a query may match. Each of them is read when a job is started.
const MaxRecords = 1_000_000

func (o *Order) validate() error {
	if o.Note.Who == "" || o.Note.Why == "" {
		return stet.ErrNoReason
	}
	switch {
	case o.Expect < 0:
		return &OrderError{"expect", "it is the number of records that match, not negative"}
	case o.Limit < 0:
		return &OrderError{"limit", "it is a number of records, not negative"}
	case o.Action == Extend && o.Retain <= 0:
		return &OrderError{"seconds", "say for how long the results are to be kept from now"}
	case o.Action != Extend && o.Retain != 0:
		return &OrderError{"seconds", "only extend takes it"}
	case o.Action != Release && o.Now:
		return &OrderError{"now", "only release takes it"}
	case o.Action != Release && o.Override:
		return &OrderError{"override", "only release takes it"}
	}
	return nil
}

// selection returns the query that a job with this action walks, or an [OrderError].
func selection(a Action, q stet.Query) (stet.Query, error) {
	q.After, q.Limit, q.Oldest = "", 0, false
	switch {
	case a != Release && a != Delete && a != Extend:
		return q, &OrderError{"action", "it is release, delete or extend"}
	case reflect.ValueOf(q).IsZero():
		return q, &OrderError{"filter", "it selects every record there is; name at least one of its members"}
	case q.Scope == stet.OwnScope:
		return q, &OrderError{"filter", "its scope is Stet's own, whose records are not changed in bulk"}
	}
	if a == Release && len(q.States) == 0 {
		q.States = []stet.State{stet.Unknown}
	}
	return q, nil
}

// since returns when a record came into its state, as far as the record tells. Probes write unknown
// records without changing their state, until the last one makes a dead letter.
func since(q *stet.Query, h *stet.Head) time.Time {
	switch {
	case h.State != stet.Unknown || q.Escalated:
		return h.UpdatedAt
	case h.Attended(): // its holder writes it again and again
		return h.CreatedAt
	}
	return h.CreatedAt.Add(h.Took)
}

// selects reports whether h already matched at an instant of the store's clock.
func selects(q *stet.Query, h *stet.Head, at time.Time) bool {
	then := *h
	then.AsOf = at // ages are those of that instant
	return !since(q, h).After(at) && q.Matches(&then)
}
