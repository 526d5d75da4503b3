package age_test

import (
	"testing"
	"time"

	"github.com/stet-dev/stet/internal/age"
)

func TestAges(t *testing.T) {
	for d, want := range map[time.Duration][2]string{
		-time.Second:                    {"0s", "0 s"},
		999 * time.Millisecond:          {"0s", "0 s"},
		42500 * time.Millisecond:        {"42s", "42 s"},
		time.Minute:                     {"1m", "1 min"},
		14*time.Minute + 3*time.Second:  {"14m3s", "14 min 3 s"},
		time.Hour + 59*time.Second:      {"1h", "1 h"},
		3*time.Hour + 7*time.Minute:     {"3h7m", "3 h 7 min"},
		24*time.Hour + 59*time.Minute:   {"1d", "1 d"},
		75*time.Hour + 59*time.Minute:   {"3d3h", "3 d 3 h"},
		90*24*time.Hour + 7*time.Second: {"90d", "90 d"},
	} {
		if short, long := age.Short(d), age.Long(d); short != want[0] || long != want[1] {
			t.Errorf("%s: %q, %q, want %q", d, short, long, want)
		}
	}
}

func TestClock(t *testing.T) {
	now := time.Date(2026, 11, 21, 23, 57, 0, 0, time.FixedZone("", 3600))
	for d, want := range map[time.Duration]string{
		0:                    "22:57:00",
		-3 * time.Hour:       "19:57:00",
		2 * time.Hour:        "Sun 00:57",
		-5 * 24 * time.Hour:  "Mon 22:57",
		6 * 24 * time.Hour:   "27 Nov 22:57",
		-90 * 24 * time.Hour: "23 Aug 22:57",
		90 * 24 * time.Hour:  "19 Feb 2027 22:57",
	} {
		if got := age.Clock(now.Add(d), now); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
	if got := age.Clock(time.Time{}, now); got != "never" {
		t.Errorf("no instant: %q", got)
	}
}
