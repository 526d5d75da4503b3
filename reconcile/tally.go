package reconcile

import (
	"time"

	"github.com/stet-dev/stet"
)

// Tally is what unknown records amount to, for lists, alerts and pages alike. Each record counts
// once, so that the three add up to all.
type Tally struct {
	Snoozed int       // by an operator: out of lists and alerts for a while, a dead letter too
	Dead    int       // dead letters: only people end them
	Waiting int       // for a probe, or for people
	Oldest  time.Time // when the first of those that are waiting became unknown
}

// Add counts an unknown record.
func (t *Tally) Add(h *stet.Head) {
	_, snoozed := h.Snooze()
	switch since := h.UnknownSince().UTC(); {
	case snoozed:
		t.Snoozed++
	case h.Escalated:
		t.Dead++
	default:
		t.Waiting++
		if t.Oldest.IsZero() || since.Before(t.Oldest) {
			t.Oldest = since
		}
	}
}
