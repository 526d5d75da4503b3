package codec

import (
	"time"

	"github.com/stet-dev/stet"
)

// Micros returns an instant in microseconds since 1970, and 0 for the zero Time, which stands for
// none. [Instant] is its inverse.
func Micros(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}

// Instant is the inverse of [Micros].
func Instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Stamp sets the instants of a write over old, of a store that keeps them itself. A record's time
// does not go back, even if the host's clock was set back while no process was running (I13).
func Stamp(h, old *stet.Head, now time.Time) {
	if now.Before(old.UpdatedAt) {
		now = old.UpdatedAt
	}
	if h.CreatedAt.IsZero() || old.CreatedAt.IsZero() {
		h.CreatedAt = now
	} else {
		h.CreatedAt = old.CreatedAt
	}
	switch {
	case h.State != stet.Completed && h.State != stet.Expired:
		h.CompletedAt = time.Time{}
	case !h.CompletedAt.IsZero():
		h.CompletedAt = old.CompletedAt
	}
	if h.State == stet.Completed && h.CompletedAt.IsZero() {
		h.CompletedAt = now
	}
	h.DueAt = time.Time{}
	if h.DueIn >= 0 {
		h.DueAt = now.Add(h.DueIn.Truncate(time.Microsecond))
	}
	h.DueIn, h.UpdatedAt, h.AsOf = 0, now, now
}
