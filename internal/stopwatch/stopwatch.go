// Package stopwatch takes the time only where it is wanted: reading the clock twice costs as much
// as a look into a map.
package stopwatch

import "time"

// Start returns the local time, or zero where the time is not wanted.
func Start(wanted bool) time.Time {
	if !wanted {
		return time.Time{}
	}
	return time.Now()
}

// Since returns the time since a [Start], and zero where that was zero.
func Since(start time.Time) time.Duration {
	if start.IsZero() {
		return 0
	}
	return time.Since(start)
}
