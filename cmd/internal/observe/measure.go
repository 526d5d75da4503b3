package observe

import (
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate/fleet"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/reconcile"
)

// Bounds of what is measured.
const (
	countLimit  = 10_000_000        // records of a state
	watched     = 5 * stet.MaxLimit // unknown records that are looked at: where there are more, something is wrong enough
	openDoubles = 100               // double effects
)

// store is asked for its figures. A [stet.Operator] is one.
type store interface {
	Count(context.Context, stet.Query) (int, error)
	List(context.Context, stet.Query) ([]stet.Head, string, error)
	DoubleEffects(ctx context.Context, limit int) ([]stet.Change, error)
}

// The names of what is measured, for the records of processes.
const (
	keysOf       = "keys/"
	oldestAge    = "unknown-oldest-age"
	snoozedKeys  = "snoozed"
	deadKeys     = "dead/unknown"
	deadMessages = "dead/outbox"
	doubles      = "double-effects"
)

// states are the label values of idem_keys_active; failed ones are completed with a status of 500
// and above.
var states = map[string]stet.Query{
	"running":   {States: []stet.State{stet.Running}},
	"completed": {States: []stet.State{stet.Completed}, Succeeded: true},
	"failed":    {States: []stet.State{stet.Completed}, Failed: true},
	"retryable": {States: []stet.State{stet.Retryable}},
	"unknown":   {States: []stet.State{stet.Unknown}},
	"expired":   {States: []stet.State{stet.Expired}},
}

// Measures return the figures of a store. messages is [outbox.Desk.Counts], or nil. They are fit for
// [fleet.Config].Measures.
func Measures(messages func(context.Context, *stet.Engine) (map[outbox.State]int64, error)) []fleet.Measure {
	all := []fleet.Measure{
		func(ctx context.Context, e *stet.Engine) map[string]float64 { return countKeys(ctx, e.Operator()) },
		func(ctx context.Context, e *stet.Engine) map[string]float64 { return measureDoubt(ctx, e.Operator()) },
	}
	if messages != nil {
		all = append(all, func(ctx context.Context, e *stet.Engine) map[string]float64 {
			n, err := messages(ctx, e)
			if err != nil {
				return map[string]float64{}
			}
			return map[string]float64{deadMessages: float64(n[outbox.Dead] + n[outbox.Unknown])}
		})
	}
	return all
}

func countKeys(ctx context.Context, s store) map[string]float64 {
	all := map[string]float64{}
	for name, q := range states {
		q.Limit = countLimit
		if n, err := s.Count(ctx, q); err == nil {
			all[keysOf+name] = float64(n)
		}
	}
	return all
}

func measureDoubt(ctx context.Context, s store) map[string]float64 {
	all := map[string]float64{}
	if unknown, age, err := tallyUnknown(ctx, s); err == nil {
		all[oldestAge], all[snoozedKeys], all[deadKeys] = age.Seconds(), float64(unknown.Snoozed), float64(unknown.Dead)
	}
	if open, err := s.DoubleEffects(ctx, openDoubles); err == nil {
		all[doubles] = float64(len(open))
	}
	return all
}

// tallyUnknown counts the oldest unknown records, and says for how long the first of those that are
// waiting is unknown.
func tallyUnknown(ctx context.Context, s store) (all reconcile.Tally, age time.Duration, err error) {
	q := stet.Query{States: []stet.State{stet.Unknown}, Limit: stet.MaxLimit, Oldest: true}
	for range watched / stet.MaxLimit {
		heads, next, err := s.List(ctx, q)
		if err != nil {
			return all, 0, err
		}
		for i := range heads {
			if all.Add(&heads[i]); !all.Oldest.IsZero() {
				age = heads[i].AsOf.Sub(all.Oldest)
			}
		}
		if q.After = next; next == "" {
			break
		}
	}
	return all, age, nil
}

// Measured shows what a process has measured. Series of what is not known are absent: an old number
// would be a lie. It is fit for [fleet.Config].Measured.
func (m *Metrics) Measured(all map[string]float64) {
	for name, gauge := range m.measured {
		if n, known := all[name]; known {
			gauge.vec.WithLabelValues(gauge.labels...).Set(n)
		} else {
			gauge.vec.DeleteLabelValues(gauge.labels...)
		}
	}
}
