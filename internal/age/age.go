// Package age says for people how long a time is, in its two largest units, and when it was.
package age

import (
	"strconv"
	"time"
)

// Short is for tables: 42s, 14m3s, 3h7m, 3d.
func Short(d time.Duration) string { return inUnits(d, [...]string{"d", "h", "m", "s"}, "") }

// Long is for sentences: 42 s, 14 min 3 s, 3 h 7 min, 3 d.
func Long(d time.Duration) string { return inUnits(d, [...]string{" d", " h", " min", " s"}, " ") }

// inUnits cuts off what is smaller than the second unit: an age is not rounded up to one that it
// has not reached. What is negative is none: clocks differ.
func inUnits(d time.Duration, units [4]string, between string) string {
	rest := max(0, int(d/time.Second))
	for i, size := range [...]int{86400, 3600, 60} {
		if rest < size {
			continue
		}
		text, below := strconv.Itoa(rest/size)+units[i], [...]int{3600, 60, 1}[i]
		if part := rest % size / below; part > 0 {
			text += between + strconv.Itoa(part) + units[i+1]
		}
		return text
	}
	return strconv.Itoa(rest) + units[3]
}

// Clock is an instant, seen from now: of today its time, of this week with its day, and else with
// its date. It is UTC, which a text says by itself.
func Clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	switch d := now.Sub(t); {
	case t.IsZero():
		return "never"
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04:05")
	case d > -6*24*time.Hour && d < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	case t.Year() == now.Year():
		return t.Format("2 Jan 15:04")
	}
	return t.Format("2 Jan 2006 15:04")
}
