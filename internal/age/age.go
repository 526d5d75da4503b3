// Package age says how long a time is, for people: in its two largest units.
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
