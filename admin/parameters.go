package admin

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-dev/stet/internal/bounds"
)

// parameter is one that a query may have. take is handed its value, and says what is wrong with it.
type parameter struct {
	name string
	take func(v string) error
}

// parameters are those of a query, in the order in which people are told which there are.
type parameters []parameter

// read hands on each parameter of a query. One that is not known is refused: a mistyped filter
// would select everything, and a mistyped condition would be none. No problem names a value: it may
// be a key.
func (all parameters) read(u *url.URL) error {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return badParameter("query", "it is not properly encoded")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) != 1 {
			return badParameter(name, "it is there more than once; send it once")
		}
		if err := all.set(name, values[name][0]); err != nil {
			return err
		}
	}
	return nil
}

// set hands on one parameter.
func (all parameters) set(name, v string) error {
	var names []string
	for _, p := range all {
		if p.name == name {
			if err := p.take(v); err != nil {
				return badParameter(name, err.Error())
			}
			return nil
		}
		names = append(names, p.name)
	}
	if names == nil {
		return badParameter(name, "there are no parameters here")
	}
	return badParameter(name, "there is no such parameter: "+strings.Join(names, ", "))
}

// verbatim takes a value as it is.
func verbatim[T ~string](into *T) func(string) error {
	return func(v string) error {
		*into = T(v)
		return nil
	}
}

// oneOf takes one of some words, and otherwise says what it is.
func oneOf[T ~string](into *T, is string, words ...string) func(string) error {
	return func(v string) error {
		if *into = T(v); !slices.Contains(words, v) {
			return errors.New(is)
		}
		return nil
	}
}

// flagged takes a word that means yes, and otherwise says what it is.
func flagged(into *bool, is string, words ...string) func(string) error {
	return func(v string) error {
		if *into = slices.Contains(words, v); !*into {
			return errors.New(is)
		}
		return nil
	}
}

// upTo takes a number, such as that of the rows that a page has at most.
func upTo(most int, into *int) func(string) error {
	return func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > most {
			return errors.New("it is a number from 1 to " + strconv.Itoa(most))
		}
		*into = n
		return nil
	}
}

// seconds takes a number of seconds, whole or decimal, that a duration can hold.
func seconds(into *time.Duration) func(string) error {
	return func(v string) error {
		s, err := strconv.ParseFloat(v, 64)
		if err != nil || !(s >= 0 && s <= bounds.Long.Seconds()) {
			return errors.New("it is a number of seconds, not negative, and not over a hundred years")
		}
		*into = time.Duration(s * float64(time.Second))
		return nil
	}
}

// instant takes a time.
func instant(into *time.Time) func(string) error {
	return func(v string) (err error) {
		if *into, err = time.Parse(time.RFC3339, v); err != nil {
			return errors.New("it is an instant such as 2026-11-22T03:00:00Z (RFC 3339)")
		}
		return nil
	}
}
