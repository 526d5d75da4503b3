package main

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// span reads how long something takes: a duration of package time, and days before it, as in 1d12h.
// None is negative.
func span(s string) (time.Duration, error) {
	const day = 24 * time.Hour
	days, rest, hasDays := strings.Cut(s, "d")
	if !hasDays {
		days, rest = "0", s
	}
	whole, err := time.ParseDuration(days + "h") // for the number: days have no unit there
	if rest == "" && hasDays {
		rest = "0"
	}
	part, errRest := time.ParseDuration(rest)
	switch {
	case err != nil || errRest != nil || strings.Trim(days, "+-.0123456789") != "":
		return 0, fmt.Errorf("%q is no span of time, such as 90s, 15m, 12h or 1d12h", s)
	case whole < 0 || part < 0:
		return 0, fmt.Errorf("%s is negative; give a span of time such as 15m", s)
	case whole > math.MaxInt64/24-day:
		return 0, errors.New("it is too long: a span of time ends at 292 years")
	}
	return 24*whole + part, nil
}

// mapSpan is [span] for kong.
func mapSpan(ctx *kong.DecodeContext, target reflect.Value) error {
	var s string
	if err := ctx.Scan.PopValueInto("duration", &s); err != nil {
		return err
	}
	d, err := span(s)
	if err == nil {
		target.SetInt(int64(d))
	}
	return err
}
