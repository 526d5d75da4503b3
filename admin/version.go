package admin

import (
	"errors"
	"strconv"
	"strings"

	"github.com/stet-dev/stet"
)

// pin is a member of a change that says what it was decided on: a text, for which a number is taken,
// too.
type pin func(text string) error

// UnmarshalJSON implements [json.Unmarshaler].
func (p pin) UnmarshalJSON(text []byte) error { return p(strings.Trim(string(text), `"`)) }

// pinVersion takes an if_version. In JSON it is a string: a double does not hold 63 bits, and what
// rounds it (JavaScript, jq) would be told ever after that the record has changed.
func (n *note) pinVersion(text string) error {
	v, err := strconv.ParseUint(text, 10, 63)
	if err != nil || v == 0 || text[0] == '+' {
		return errors.New("it is the version of the record as it was shown: a string of digits")
	}
	n.ifVersion = stet.Version(v)
	return nil
}

// pinBasis takes an if_basis.
func (n *note) pinBasis(text string) error {
	if n.ifBasis = text; !isTag("k_" + text) {
		return errors.New("it is the basis of the record as it was shown: 16 hex digits")
	}
	return nil
}
