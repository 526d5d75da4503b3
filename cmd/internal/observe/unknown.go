package observe

import (
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/reconcile"
)

// watched bounds how many unknown records are looked at for the metrics: where there are more,
// something is wrong enough.
const watched = 5 * stet.MaxLimit

type lister func(context.Context, stet.Query) ([]stet.Head, string, error)

// WatchUnknown keeps idem_unknown_oldest_age_seconds, idem_dead_letters and idem_keys_snoozed fresh
// until ctx ends: what [reconcile.Tally] says of the unknown records. While the store cannot list
// they are absent.
func (m *Metrics) WatchUnknown(ctx context.Context, list lister) {
	refresh(ctx, func() {
		if all, age, err := unknowns(ctx, list); err != nil {
			m.oldest.DeleteLabelValues()
			m.snoozed.DeleteLabelValues()
			m.dead.DeleteLabelValues("unknown")
		} else {
			m.oldest.WithLabelValues().Set(age.Seconds())
			m.snoozed.WithLabelValues().Set(float64(all.Snoozed))
			m.dead.WithLabelValues("unknown").Set(float64(all.Dead))
		}
	})
}

// WatchOutbox keeps idem_dead_letters of the outbox fresh until ctx ends. counts is
// [outbox.Desk.Counts]; while it cannot say, such as where there are no tables of an outbox, the
// series is absent.
func (m *Metrics) WatchOutbox(ctx context.Context, counts func(context.Context) (map[outbox.State]int64, error)) {
	refresh(ctx, func() {
		if n, err := counts(ctx); err != nil {
			m.dead.DeleteLabelValues("outbox")
		} else {
			m.dead.WithLabelValues("outbox").Set(float64(n[outbox.Dead] + n[outbox.Unknown]))
		}
	})
}

// openDoubles bounds how many double effects are counted.
const openDoubles = 100

// WatchDoubleEffects keeps idem_keys_double_effect fresh until ctx ends: see
// [stet.Operator.DoubleEffects]. While the store cannot say, it is absent.
func (m *Metrics) WatchDoubleEffects(ctx context.Context, ask func(ctx context.Context, limit int) ([]stet.Change, error)) {
	refresh(ctx, func() {
		if open, err := ask(ctx, openDoubles); err != nil {
			m.open.DeleteLabelValues()
		} else {
			m.open.WithLabelValues().Set(float64(len(open)))
		}
	})
}

// unknowns counts the oldest unknown records, and says for how long the first of those that are
// waiting is unknown.
func unknowns(ctx context.Context, list lister) (all reconcile.Tally, age time.Duration, err error) {
	q := stet.Query{States: []stet.State{stet.Unknown}, Limit: stet.MaxLimit, Oldest: true}
	for range watched / stet.MaxLimit {
		heads, next, err := list(ctx, q)
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
