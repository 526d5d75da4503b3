package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Seconds is a duration that is written as a number of seconds, whole or decimal.
type Seconds time.Duration

// Duration converts.
func (s Seconds) Duration() time.Duration { return time.Duration(s) }

// String is the number of seconds, exactly.
func (s Seconds) String() string {
	whole, frac := int64(s)/1e9, int64(s)%1e9
	if frac == 0 {
		return strconv.FormatInt(whole, 10)
	}
	return fmt.Sprintf("%d.%s", whole, strings.TrimRight(fmt.Sprintf("%09d", frac), "0"))
}

// MarshalJSON implements [encoding/json.Marshaler].
func (s Seconds) MarshalJSON() ([]byte, error) { return []byte(s.String()), nil }

// Numbers are written plainly. YAML would also read 010 as eight, 0x10 as sixteen and 1_0 as ten.
var (
	integer = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
)

// parseSeconds is exact to the nanosecond; what is finer is refused, like what is no plain number.
func parseSeconds(s string) (Seconds, error) {
	if !decimal.MatchString(s) {
		if d, err := time.ParseDuration(s); err == nil {
			return 0, fmt.Errorf("%q is not a number of seconds; write %s", s, Seconds(d))
		}
		return 0, fmt.Errorf("%q is not a number of seconds, such as 30 or 0.5", s)
	}
	whole, frac, _ := strings.Cut(s, ".")
	if frac = strings.TrimRight(frac, "0"); len(frac) > 9 {
		return 0, fmt.Errorf("%s is finer than a nanosecond", s)
	}
	n, err := strconv.ParseInt(whole+(frac + "000000000")[:9], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is out of range: at most %d seconds", s, math.MaxInt64/int64(time.Second))
	}
	return Seconds(n), nil
}
