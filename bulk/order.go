package bulk

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
)

// Action is what a job does with each record.
type Action string

// The actions. Each is the operator's verb for one record.
const (
	// Release says that nothing happened, so that one retry may run: see [stet.Operator.Resolve].
	Release Action = "release"
	// Delete drops the stored result and frees the key: see [stet.Operator.Purge].
	Delete Action = "delete"
	// Extend keeps the stored result for Retain from now: see [stet.Operator.Extend]. What is kept
	// for longer already is left.
	Extend Action = "extend"
	// Resolve says that it happened, with the answer that is known already: see [reconcile.Adopt].
	// Records of which nothing is known are left as they are.
	Resolve Action = "resolve"
	// Probe asks what became of it: see [reconcile.Reconciler.Ask] and [Jobs.AskWith].
	Probe Action = "probe"
	// Snooze takes it out of what calls for people until Until: see [stet.Operator.Snooze].
	Snooze Action = "snooze"
	// Hand hands it to To: see [stet.Operator.Hand].
	Hand Action = "hand"
)

// Actions are all of them.
var Actions = []Action{Release, Delete, Extend, Resolve, Probe, Snooze, Hand}

// ofUnknown reports whether the action is done to unknown records alone.
func (a Action) ofUnknown() bool { return a != Delete && a != Extend }

// Named is a record that an order names.
type Named struct {
	ID stet.ID
	// Basis, if not "", is the [stet.Head.Basis] that its caller has seen. A record that has
	// another one when the job comes to it is left as it is.
	Basis string
}

// Order is what a job is to do, and to which records.
type Order struct {
	// Action is what is done with each record. Required.
	Action Action
	// Query selects the records; its After and Limit are ignored. A query that selects everything
	// is refused. Without States, an action that is done to unknown records selects those.
	Query stet.Query
	// Records, if there are any, are the records in place of what Query selects, at most
	// [MaxNamed]: a set that its caller has seen. Of the Query, Scope alone is kept with the job.
	Records []Named `json:",omitzero"`
	// Expect is how many records match, as the caller has counted: with any other number nothing is
	// changed, and the error is a [Mismatch]. Required.
	Expect int
	// Limit is the most records to change, in the store's order; 0 means all.
	Limit int
	// Retain is how long Extend keeps results from now. Required with Extend, and refused
	// otherwise.
	Retain time.Duration
	// Until is when the records of a Snooze call for people again, [stet.MaxSnooze] from now at
	// most. Required with Snooze, and refused otherwise.
	Until time.Time `json:",omitzero"`
	// To is whom Hand hands them to. Required with Hand, and refused otherwise.
	To string `json:",omitzero"`
	// Settle, Now and Override are those of [stet.Resolution], for Release.
	Settle        time.Duration
	Now, Override bool
	// Note goes into the history with each change. Who and Why are required; Notice is replaced by
	// the id of the job.
	Note stet.Note
}

var orderBounds = bounds.For[Order](
	bounds.Free("Query", "the engine checks it when it is counted"),
	bounds.Number("Expect", 0, MaxRecords),
	bounds.Number("Limit", 1, bounds.Many).Or("0 for all", 0),
	bounds.Duration("Retain", bounds.Short, bounds.Long).Or("0 where it is no extend", 0),
	bounds.Duration("Settle", bounds.Short, bounds.Long).Or("0 for no time at all", 0).Or("stet.Never, which is the same", stet.Never),
)

// fieldNames are the fields that an [OrderError] calls by another name.
var fieldNames = map[string]string{"Retain": "seconds"}

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

// MaxNamed is how many records an order may name.
const MaxNamed = 500

func (o *Order) validate() error {
	if o.Note.Who == "" || o.Note.Why == "" {
		return stet.ErrNoReason
	}
	if e, out := errors.AsType[*bounds.Error](orderBounds.Check(o)); out {
		return &OrderError{cmp.Or(fieldNames[e.Field], strings.ToLower(e.Field)), e.Error()}
	}
	switch {
	case o.Records != nil && len(o.Records) == 0:
		return &OrderError{"ids", "there is none in it; name some, or leave it out and send a filter"}
	case len(o.Records) > MaxNamed:
		return &OrderError{"ids", fmt.Sprintf("a job takes %d of them at most; select more by a filter", MaxNamed)}
	case o.ownsOrRepeats():
		return &OrderError{"ids", "each is there once, and none is of Stet's own scope"}
	case len(o.Records) > 0 && o.Limit > 0:
		return &OrderError{"limit", "it is for a filter; name fewer ids instead"}
	case o.Action == Extend && o.Retain == 0:
		return &OrderError{"seconds", "say for how long the results are to be kept from now"}
	case o.Action != Extend && o.Retain != 0:
		return &OrderError{"seconds", "only extend takes it"}
	case (o.Action == Snooze) == o.Until.IsZero():
		return &OrderError{"until", "it is until when records are snoozed; snooze needs it, and nothing else takes it"}
	case (o.Action == Hand) == (strings.TrimSpace(o.To) == ""):
		return &OrderError{"to", "it is whom records are handed to; hand needs it, and nothing else takes it"}
	case o.Action != Release && o.Now:
		return &OrderError{"now", "only release takes it"}
	case o.Action != Release && o.Override:
		return &OrderError{"override", "only release takes it"}
	}
	return nil
}

// ownsOrRepeats reports whether the order names a record twice, or one of Stet's own.
func (o *Order) ownsOrRepeats() bool {
	seen := map[stet.ID]bool{}
	for _, n := range o.Records {
		if seen[n.ID] || n.ID.Scope == stet.OwnScope {
			return true
		}
		seen[n.ID] = true
	}
	return false
}

// selection returns the query that a job with this action walks, or an [OrderError].
func selection(a Action, q stet.Query) (stet.Query, error) {
	q.After, q.Limit, q.Oldest = "", 0, false
	switch {
	case !slices.Contains(Actions, a):
		return q, &OrderError{"action", "it is release, resolve, probe, snooze, hand, delete or extend"}
	case reflect.ValueOf(q).IsZero():
		return q, &OrderError{"filter", "it selects every record there is; name at least one of its members"}
	case q.Scope == stet.OwnScope:
		return q, &OrderError{"filter", "its scope is Stet's own, whose records are not changed in bulk"}
	}
	if a.ofUnknown() && len(q.States) == 0 {
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
