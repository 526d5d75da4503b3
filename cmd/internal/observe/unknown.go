package observe

import (
	"context"
	"time"

	"github.com/stet-dev/stet"
)

// watched bounds how many unknown records are looked at for the metrics: where there are more,
// something is wrong enough.
const watched = 5 * stet.MaxLimit

// WatchUnknown keeps idem_unknown_oldest_age_seconds and idem_dead_letters fresh until ctx ends.
// While the store cannot list they are absent.
func (m *Metrics) WatchUnknown(ctx context.Context, list func(context.Context, stet.Query) ([]stet.Head, string, error)) {
	refresh(ctx, func() {
		if oldest, dead, err := unknowns(ctx, list); err != nil {
			m.oldest.DeleteLabelValues()
			m.dead.DeleteLabelValues("unknown")
		} else {
			m.oldest.WithLabelValues().Set(oldest.Seconds())
			m.dead.WithLabelValues("unknown").Set(float64(dead))
		}
	})
}

func unknowns(ctx context.Context, list func(context.Context, stet.Query) ([]stet.Head, string, error)) (oldest time.Duration, dead int, err error) {
	q := stet.Query{States: []stet.State{stet.Unknown}, Limit: stet.MaxLimit}
	for range watched / stet.MaxLimit {
		heads, next, err := list(ctx, q)
		if err != nil {
			return 0, 0, err
		}
		for i := range heads {
			oldest = max(oldest, heads[i].Idle())
			if heads[i].Escalated {
				dead++
			}
		}
		if q.After = next; next == "" {
			break
		}
	}
	return oldest, dead, nil
}
