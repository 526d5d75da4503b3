package stet

import (
	"fmt"

	"github.com/stet-dev/stet/internal/bounds"
)

// What callers hand over is compared with these tables where it enters. On the path of a request
// single values are compared with rows, without reflection: a test compares that with the table.

var configBounds = bounds.For[Config](
	bounds.Free("Policy", "it has a table"),
	bounds.Duration("StoreTimeout", bounds.Short, bounds.Long).OrDefault(),
	bounds.Number("MaxWaiters", 1, bounds.Many).OrDefault(),
	bounds.Number("MaxUnstored", 1, bounds.Huge).OrDefault(),
)

var (
	leaseBounds     = bounds.Duration("Lease", bounds.Short, bounds.Long).OrDefault()
	executionBounds = bounds.Duration("Execution", bounds.Short, bounds.Long).OrDefault().Or("stet.Never", Never)
	retainBounds    = bounds.Duration("Retain", bounds.Short, bounds.Long).OrDefault()
	expiredBounds   = bounds.Duration("KeepExpired", bounds.Short, bounds.Long).Or("0, which frees expired keys", 0)
	lapseBounds     = bounds.Number("OnLapse", 0, int64(LapseAtomic))
)

var policyBounds = bounds.For[Policy](leaseBounds, executionBounds, retainBounds, expiredBounds, lapseBounds)

// check compares p with the rows of policyBounds.
func (p *Policy) check() error {
	for _, field := range [...]struct {
		row   *bounds.Row
		value int64
	}{
		{&leaseBounds, int64(p.Lease)}, {&executionBounds, int64(p.Execution)}, {&retainBounds, int64(p.Retain)},
		{&expiredBounds, int64(p.KeepExpired)}, {&lapseBounds, int64(p.OnLapse)},
	} {
		if err := field.row.Check(field.value); err != nil {
			return fmt.Errorf("stet: Policy.%w", err)
		}
	}
	return nil
}

// waitBounds has no least: the caller may have waited before.
var waitBounds = bounds.Duration("Wait", 0, bounds.Long)

var requestBounds = bounds.For[Request](
	waitBounds,
	bounds.Free("Policy", "it has a table"),
	bounds.Free("Recipe", "it was compiled"),
)

// A status is one that package net/http sends and a replay can send again; above 599 there are
// some that have no meaning (RFC 9110 section 15), and are sent nevertheless.
var (
	statusBounds = bounds.Number("Response.Status", 200, 999)
	keptBounds   = bounds.Number("Kept", 0, int64(KeptStatus))
	sizeBounds   = bounds.Number("Size", 0, bounds.Huge)
)

var outcomeBounds = bounds.For[Outcome](statusBounds, keptBounds, sizeBounds)

var resolutionBounds = bounds.For[Resolution](
	statusBounds,
	keptBounds,
	bounds.Duration("Settle", bounds.Short, bounds.Long).Or("0 for no time at all", 0).Or("stet.Never, which is the same", Never),
)

var lastProbeBounds = bounds.For[LastProbe](
	bounds.Duration("Took", 0, bounds.Long),
	bounds.Number("Status", 100, 999).Or("0 for none", 0),
)

var queryBounds = bounds.For[Query](
	bounds.Number("States[]", int64(Running), int64(Expired)),
	bounds.Duration("OlderThan", 0, bounds.Long),
	bounds.Duration("NewerThan", 0, bounds.Long),
	bounds.Number("Limit", 0, bounds.Many),
)

var historyQueryBounds = bounds.For[HistoryQuery](bounds.Number("Limit", 0, bounds.Many))

var recipeBounds = bounds.For[Recipe](bounds.Number("Body", 0, int64(len(bodyModes)-1)))

// The durations that are arguments.
var (
	extendBounds = bounds.Duration("retain", bounds.Short, bounds.Long)
	inBounds     = bounds.Duration("in", 0, bounds.Long) // by a pause that has been counted down
	snoozeBounds = bounds.Duration("d", bounds.Short, MaxSnooze).Or("0, which wakes it", 0)
)
