package admin

import (
	"errors"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
)

// version is the if_version of a change. In JSON it is a string: a double does not hold 63 bits,
// and what rounds it (JavaScript, jq) would be told ever after that the record has changed. A
// number is taken, too.
type version stet.Version

var errVersion = errors.New("it is the version of the record as it was shown: a string of digits")

// UnmarshalJSON implements [json.Unmarshaler].
func (v *version) UnmarshalJSON(text []byte) error {
	return v.parse(strings.Trim(string(text), `"`))
}

func (v *version) parse(s string) error {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n == 0 || s[0] == '+' {
		return errVersion
	}
	*v = version(n)
	return nil
}

// basis is the if_basis of a change.
type basis string

var errBasis = errors.New("it is the basis of the record as it was shown: 16 hex digits")

// UnmarshalJSON implements [json.Unmarshaler].
func (b *basis) UnmarshalJSON(text []byte) error { return b.parse(strings.Trim(string(text), `"`)) }

func (b *basis) parse(s string) error {
	if !isTag("k_" + s) {
		return errBasis
	}
	*b = basis(s)
	return nil
}
